"""Lens pane (logit lens): the next tokens that each layer predicts at every token."""
