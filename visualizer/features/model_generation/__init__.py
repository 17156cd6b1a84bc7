"""The pane in which a real model continues the text, token by token."""
