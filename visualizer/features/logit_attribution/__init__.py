"""Attribution pane: direct logit attribution and head ablation."""
