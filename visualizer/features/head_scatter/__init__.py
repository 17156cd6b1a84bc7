"""The scatter plot of all heads by two measures."""
