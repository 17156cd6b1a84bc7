"""The board of heatmap panels: model, layout, painting, cursor and minimap."""
