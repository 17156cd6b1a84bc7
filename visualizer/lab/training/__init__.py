"""The training process, its losses and its bar."""
