"""The pane that shows and edits a tensor as a table of numbers."""
