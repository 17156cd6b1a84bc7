"""Next token pane: the next-token probabilities of a model, and edits of its heads."""
