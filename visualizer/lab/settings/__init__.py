"""The settings of a training run."""
