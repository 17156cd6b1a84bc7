"""The pane that shows which token a model expects next, and edits its heads."""
