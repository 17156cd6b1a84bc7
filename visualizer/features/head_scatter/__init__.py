"""The pane that places all heads between two measures."""
