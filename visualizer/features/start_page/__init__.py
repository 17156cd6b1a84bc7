"""Start page with four examples and the recent documents."""
