"""The text: how a sentence becomes tokens."""
