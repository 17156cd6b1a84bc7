"""A bar with which the user moves through the snapshots of the weights."""
