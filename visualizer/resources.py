"""Paths of shipped files, which are inside the package in a wheel and next to it in a checkout."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource_path(*parts: str) -> Path:
    """Return the path of a data file, such as ``resource_path("icons", "app.svg")``."""
    return _shipped_folder("resources").joinpath(*parts)


def documentation_path(*parts: str) -> Path:
    """Return the path of a documentation page, such as ``documentation_path("index.md")``."""
    return _shipped_folder("docs").joinpath(*parts)


def python_path_with_package(before: str) -> str:
    """Return a PYTHONPATH with which a child process imports this copy of the package."""
    return os.pathsep.join([str(PACKAGE.parent), *filter(None, before.split(os.pathsep))])


def _shipped_folder(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
