"""The disk: whole files, locks that end with their program, values as JSON."""
