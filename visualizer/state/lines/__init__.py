"""The weights as lines from the queries to the keys."""
