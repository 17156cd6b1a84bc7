"""What is asked for in words, as values: the same words in a shell and in a notebook."""
