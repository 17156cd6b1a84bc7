"""Benchmarks of the real window, beside minimal implementations and other tools."""
