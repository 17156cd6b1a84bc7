"""Editing the attention mask with brushes and strokes."""
