"""The pane that lists the heads with their measures."""
