"""The list of stored training runs."""
