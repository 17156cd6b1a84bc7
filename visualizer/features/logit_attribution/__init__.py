"""The pane that shows direct logit attribution and head ablation."""
