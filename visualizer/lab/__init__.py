"""The language lab: a window for training small language models."""
