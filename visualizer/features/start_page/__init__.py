"""The start page: four pictures to open, and the recent documents."""
