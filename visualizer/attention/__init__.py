"""Attention: specs, stages, computation, traces, explanations and importers."""
