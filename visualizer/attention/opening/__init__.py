"""Files with attention or weights that were made elsewhere. torch and numpy; nothing is trusted."""
