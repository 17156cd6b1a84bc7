"""The dialog in which a model is chosen, downloaded and opened."""
