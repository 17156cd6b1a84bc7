"""A model that is served to windows on other machines."""
