"""The public functions and classes for use from Python and from a notebook."""
