"""Texts, formulas and code of each operation, one module per operation."""
