"""The disk: files that are whole or not there, and locks that end with their program."""
