"""Real models: opened from a folder, and their attention recorded, layer by layer."""
