"""Environment variables that a server sets for its model processes. No torch."""

ADDRESS = "ATTENTION_VISUALIZER_FRONT"
"""Address at which the server listens for its processes."""
SECRET = "ATTENTION_VISUALIZER_FRONT_SECRET"
"""Secret by which a process proves that the server started it."""
STORE = "ATTENTION_VISUALIZER_RANK_STORE"
"""File that serves as the rendezvous store of torch.distributed."""
