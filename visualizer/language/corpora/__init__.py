"""Texts to learn: files, tasks and generated stories."""
