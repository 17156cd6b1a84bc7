"""Export of a training run as an animation."""
