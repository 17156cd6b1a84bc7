"""Builds a Debian package and an AppDir that include a Python interpreter."""
