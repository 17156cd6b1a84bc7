"""The bar that scrubs through snapshots of the weights."""
