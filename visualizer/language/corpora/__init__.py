"""Texts to learn: files, synthetic tasks and generated stories."""
