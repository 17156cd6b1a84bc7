"""The language lab's widgets."""
