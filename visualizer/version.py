"""The program's version, read by the package, the build and the writers of files."""

__version__ = "0.1.0"
