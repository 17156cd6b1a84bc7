"""The plot of training and validation losses."""
