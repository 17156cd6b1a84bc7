"""Theme and reusable widgets, independent of attention."""
