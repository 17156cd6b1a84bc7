"""Choosing the input image of a vision model."""
