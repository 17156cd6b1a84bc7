"""The document file: written, read with suspicion, and kept while one works."""
