"""The pane that shows the heads of all layers at once."""
