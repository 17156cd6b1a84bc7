"""Scripts that build the installers; they are not a part of the program."""
