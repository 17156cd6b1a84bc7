"""Explanation of one cell: its calculation, term by term, and the code that performs it."""
