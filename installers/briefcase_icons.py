"""Writes the icons that Briefcase uses: ``python -m installers.briefcase_icons``.

Run this before a build; ``pyproject.toml`` contains the path of the icons.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from PySide6.QtGui import QImage

from installers.icon_drawing import render_icons

FOLDER = Path(__file__).resolve().parents[1] / "build" / "icons"
NAME = "attention-visualizer"
WINDOWS = (16, 24, 32, 48, 64, 128, 256)
MAC_OS = (32, 64, 128, 256, 512, 1024)
"""Side lengths, in pixels, of the icons for macOS."""


def write_icons(folder: Path) -> None:
    """Write one file for Windows and one for macOS; each contains all sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    *others, largest = _as_pillow(WINDOWS)
    sizes = [(side, side) for side in WINDOWS]
    largest.save(folder / f"{NAME}.ico", append_images=others, sizes=sizes)
    *others, largest = _as_pillow(MAC_OS)
    largest.save(folder / f"{NAME}.icns", append_images=others)


def _as_pillow(sides: tuple[int, ...]) -> list[Image.Image]:
    rows = QImage.Format.Format_RGBA8888  # in this format, rows have no padding
    drawn = (image.convertToFormat(rows) for image in render_icons(sides))
    return [
        Image.frombytes("RGBA", (image.width(), image.height()), bytes(image.constBits()))
        for image in drawn
    ]


if __name__ == "__main__":
    write_icons(FOLDER)
    sys.stdout.write(f"{FOLDER}\n")
