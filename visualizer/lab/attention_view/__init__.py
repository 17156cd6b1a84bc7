"""Heatmaps of all layers and heads of the model being trained."""
