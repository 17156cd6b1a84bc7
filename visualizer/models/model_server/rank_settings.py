"""Names of what a server tells its processes by the environment; no torch here."""

ADDRESS = "ATTENTION_VISUALIZER_FRONT"
"""Where the server listens for its processes."""
SECRET = "ATTENTION_VISUALIZER_FRONT_SECRET"
"""What proves that a process is one of them."""
STORE = "ATTENTION_VISUALIZER_RANK_STORE"
"""The file by which processes find each other."""
