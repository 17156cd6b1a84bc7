"""Texts to learn: of files, a small world, and tasks of which it is known what to read."""
