"""Scatter pane: a scatter plot of all heads by two measures."""
