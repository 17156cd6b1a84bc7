"""Paths of shipped files: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """Return the path of a data file, such as ``resource("icons", "app.svg")``."""
    return _folder("resources").joinpath(*parts)


def documentation(*parts: str) -> Path:
    """Return the path of a page of the documentation, such as ``documentation("window.md")``."""
    return _folder("docs").joinpath(*parts)


def _folder(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
