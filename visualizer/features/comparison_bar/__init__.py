"""Comparison bar: describes the comparison and contains controls to change it."""
