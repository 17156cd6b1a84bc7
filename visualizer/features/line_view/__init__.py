"""The pane that draws attention as lines between tokens."""
