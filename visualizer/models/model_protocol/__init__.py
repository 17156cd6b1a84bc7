"""Protocol between a model server and its clients: requests, answers and validation."""
