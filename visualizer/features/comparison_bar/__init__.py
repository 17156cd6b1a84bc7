"""Comparison bar: describes a comparison, and has controls to change it."""
