"""The pane that shows how the value of one cell is calculated."""
