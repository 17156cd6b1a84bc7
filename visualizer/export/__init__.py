"""Export of figures, films, web pages and data."""
