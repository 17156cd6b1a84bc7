"""Export of figures, animations, web pages and data."""
