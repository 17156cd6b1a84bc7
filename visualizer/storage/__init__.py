"""Atomic file writes, locks, JSON encoding, archives, settings files and the program's folders."""
