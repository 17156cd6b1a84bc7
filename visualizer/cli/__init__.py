"""Command-line interface: options, exports and training without a window."""
