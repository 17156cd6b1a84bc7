"""Start page: four examples and the recent documents."""
