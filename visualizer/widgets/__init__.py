"""Theme and reusable widgets that know nothing of attention."""
