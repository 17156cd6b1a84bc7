"""Readers of attention weights and parameters from files."""
