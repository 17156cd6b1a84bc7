"""Heads pane: a table of all heads with their measures."""
