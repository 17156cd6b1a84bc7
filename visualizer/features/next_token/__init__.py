"""The pane that shows the next-token probabilities of a model and edits its heads."""
