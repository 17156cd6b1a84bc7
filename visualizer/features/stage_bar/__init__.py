"""Stage bar above the heatmaps."""
