"""Readers of files with attention weights or parameters."""
