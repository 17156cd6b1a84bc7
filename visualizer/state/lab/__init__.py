"""What the language lab shows, as values: no Qt, no torch."""
