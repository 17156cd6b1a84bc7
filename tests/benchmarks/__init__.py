"""Benchmarks of the real window, compared with minimal implementations and other tools."""
