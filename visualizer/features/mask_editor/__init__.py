"""Editing of the attention mask with a brush."""
