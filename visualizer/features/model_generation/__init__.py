"""Continue pane: text generation with the open model, token by token."""
