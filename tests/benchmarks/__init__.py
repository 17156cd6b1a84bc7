"""How fast the real window answers, beside the least work that could be done and beside others."""
