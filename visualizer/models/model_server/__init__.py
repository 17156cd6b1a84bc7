"""Server that runs a model for clients on other machines."""
