"""The program's version, used by the package, the build and the file writers."""

__version__ = "0.1.0"
