"""The strip of tokens and the selection of tokens."""
