"""The dialog that connects to a model server."""
