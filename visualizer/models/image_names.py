"""Recognizes image files for vision models by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


def has_image_suffix(path: Path) -> bool:
    """Whether a file name has the suffix of an image."""
    return path.suffix.lower() in IMAGE_SUFFIXES
