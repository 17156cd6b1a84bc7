"""The program with an interpreter of its own, as a Debian package and as an AppDir."""
