"""Protocol between a model server and its clients: requests, responses and their validation."""
