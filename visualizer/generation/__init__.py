"""Text generation for the lab and for opened models: the tree of tokens, and its widgets."""
