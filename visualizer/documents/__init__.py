"""Document files: schema, validation, recovery files and recent files."""
