"""The command line: options, exports and training without a window."""
