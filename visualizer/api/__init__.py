"""Public functions and classes for Python scripts and notebooks."""
