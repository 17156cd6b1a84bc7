"""Generates pages of the reference from docstrings and tables of the program."""
