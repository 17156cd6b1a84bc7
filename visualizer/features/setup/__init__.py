"""The pane of settings: sentence, sizes, heads, mask and dropout."""
