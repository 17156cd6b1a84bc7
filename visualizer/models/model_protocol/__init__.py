"""What a server of a model and its clients say to each other."""
