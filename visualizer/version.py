"""The program's version, used by the package, the build and the code that writes files."""

__version__ = "0.1.0"
