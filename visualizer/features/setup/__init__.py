"""Setup pane: text, sizes, heads, mask and dropout."""
