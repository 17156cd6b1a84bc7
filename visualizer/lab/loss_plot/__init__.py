"""Plot of training and validation losses."""
