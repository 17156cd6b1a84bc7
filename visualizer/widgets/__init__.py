"""Theme, settings and reusable widgets."""
