"""Server that runs a model for windows on other machines."""
