"""Export of a training run as a film."""
