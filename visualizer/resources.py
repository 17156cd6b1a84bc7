"""Paths of shipped files: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """Return the path of a data file, such as ``resource("icons", "app.svg")``."""
    return _folder("resources").joinpath(*parts)


def documentation(*parts: str) -> Path:
    """Return the path of a page of the documentation, such as ``documentation("window.md")``."""
    return _folder("docs").joinpath(*parts)


def import_path_with_package(before: str) -> str:
    """Return the value of PYTHONPATH by which a process imports this very package."""
    return os.pathsep.join([str(PACKAGE.parent), *filter(None, before.split(os.pathsep))])


def _folder(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
