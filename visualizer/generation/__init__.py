"""Generated text, its branches and the next-token probabilities: of the lab and of real models."""
