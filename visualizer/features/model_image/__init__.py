"""The image that a vision model reads: chosen from a file."""
