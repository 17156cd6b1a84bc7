"""The pane that shows the computation as Python code."""
