"""What is shown, as files, painted by what paints the window. No torch."""
