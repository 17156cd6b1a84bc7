"""The pane that shows which token a model expects next, and switches heads off."""
