"""The dialog that connects to a model on a server."""
