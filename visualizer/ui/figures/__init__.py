"""Figures that leave the program: what a board shows, in the formats of other programs."""
