"""A text file, read whole or refused in a sentence."""

from __future__ import annotations

from pathlib import Path


def read_text(path: str) -> str:
    """Read a text file."""
    return Path(path).read_bytes().decode("utf-8")
