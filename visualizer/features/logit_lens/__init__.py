"""The pane that shows which token each layer of a model would say next, at every token."""
