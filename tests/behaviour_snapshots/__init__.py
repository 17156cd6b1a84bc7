"""Snapshots of the program's windows and files, to compare two versions."""
