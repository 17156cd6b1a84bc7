"""Shapes pane: shapes and costs of all stages."""
