"""Films as GIF, written a frame at a time: Pillow's own way keeps all of them until the end.

CompuServe, "Graphics Interchange Format, Version 89a", 1990; Pillow does the LZW coding.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from PIL import GifImagePlugin, Image

from visualizer.ui.figures.palette import MOST, Palette
from visualizer.ui.figures.patch import patch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    import numpy as np

FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"


class Gif:
    """A GIF that is being written, with one palette for all its frames."""

    unit_ms = 10

    def __init__(
        self,
        file: BinaryIO,
        size: tuple[int, int],
        count: int,
        loops: bool,
        samples: Iterable[np.ndarray],
    ) -> None:
        self.written = 0
        self._file = file
        self._palette = Palette(samples)
        self._before: np.ndarray | None = None
        self._write(b"GIF89a" + struct.pack("<HHBBB", *size, 0xF7, 0, 0) + self._palette.table)
        if loops:
            self._write(FOREVER)

    def add(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame that is seen for so many hundredths of a second."""
        entries = self._palette.entries(pixels)
        change = patch(self._before, entries)
        self._before = entries
        data = change.values.copy()
        data[~change.is_new] = MOST
        parts = GifImagePlugin.getdata(
            Image.fromarray(data),
            (change.left, change.top),
            duration=duration * self.unit_ms,
            transparency=MOST,
            disposal=1,
        )
        self._write(b"".join(parts))

    def close(self) -> None:
        self._write(b";")

    def _write(self, data: bytes) -> None:
        self.written += self._file.write(data)
