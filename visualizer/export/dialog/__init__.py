"""The export dialog with its options and preview."""
