"""Atomic files, locks, JSON coding, archives, the cache folder and memory-mapped files."""
