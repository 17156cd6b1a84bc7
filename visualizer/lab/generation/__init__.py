"""Text generation in the lab."""
