"""The pane that shows the shapes of all tensors."""
