"""Paths of data files: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """Return the path of a data file, such as ``resource("icons", "app.svg")``."""
    inside = PACKAGE / "resources"
    return (inside if inside.is_dir() else PACKAGE.parent / "resources").joinpath(*parts)
