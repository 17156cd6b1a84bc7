"""The window in which small language models are trained."""
