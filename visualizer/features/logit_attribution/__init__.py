"""The pane that shows what each head adds to a logit, and what is lost without each head."""
