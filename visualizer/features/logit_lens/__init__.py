"""The logit lens pane: the next token that each layer predicts, at every token."""
