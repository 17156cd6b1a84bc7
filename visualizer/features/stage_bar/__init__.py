"""The bar of stages above the heatmaps."""
