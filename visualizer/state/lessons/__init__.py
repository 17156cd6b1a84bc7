"""Lessons as data: pages, and claims that are compared with print."""
