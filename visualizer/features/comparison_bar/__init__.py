"""The bar that sets up and describes a comparison of two runs."""
