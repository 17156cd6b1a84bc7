"""The lines of Python that make a run, in the words of three dialects."""
