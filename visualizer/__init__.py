"""Attention Visualizer: real attention modules, computed and shown stage by stage."""

__version__ = "0.1.0"
