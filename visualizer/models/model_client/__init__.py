"""A model that runs where a server of it is, read from here."""
