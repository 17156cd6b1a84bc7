"""The version of the program: read by the package, by the build and by what files say of it."""

__version__ = "0.1.0"
