"""What makes installers of the program; it is no part of the program."""
