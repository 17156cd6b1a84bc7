"""Writers of static figures as PNG, SVG, PDF and web pages."""
