"""Connecting to a model on a server."""
