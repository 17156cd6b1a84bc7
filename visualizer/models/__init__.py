"""Transformers models: opens them from a folder and records their attention layer by layer."""
