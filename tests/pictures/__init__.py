"""The pictures and the film of README and documentation."""
