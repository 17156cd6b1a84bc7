"""Writers of still figures: PNG, SVG, PDF and web page."""
