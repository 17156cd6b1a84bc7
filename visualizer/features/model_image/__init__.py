"""Choice of the input image of a vision model."""
