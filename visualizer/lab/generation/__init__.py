"""Generated text, its branches and the next-token probabilities."""
