"""Heatmaps of all layers and heads of the model that is being trained."""
