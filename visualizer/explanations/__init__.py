"""Sentences, equations and formulas that explain stages and cells."""
