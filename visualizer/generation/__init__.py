"""Text generation for the lab and for opened models: tokens, branches, next-token probabilities."""
