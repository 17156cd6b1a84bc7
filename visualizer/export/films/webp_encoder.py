"""Encodes films as lossless animated WebP, one frame at a time; Pillow's writer lists all frames.

Source: Google, "WebP Container Specification"; Pillow codes each frame.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image

from visualizer.export.films.frame_difference import patch

if TYPE_CHECKING:
    from typing import BinaryIO

    import numpy as np

ANIMATED, SEE_THROUGH = 0x02, 0x10
METHOD, EFFORT = 1, 20
"""Method 0–6 and effort 0–100: more takes several times as long for little less size."""


class WebpEncoder:
    """Encoder of an animated WebP; the length in its header is filled in at the end."""

    unit_ms = 1

    def __init__(self, file: BinaryIO, size: tuple[int, int], loops: bool) -> None:
        self.written = 0
        self._file = file
        self._before: np.ndarray | None = None
        self._write_bytes(b"RIFF\0\0\0\0WEBP")
        flags = struct.pack("<I", ANIMATED | SEE_THROUGH)
        self._write_chunk(b"VP8X", flags + _uint24(size[0] - 1) + _uint24(size[1] - 1))
        self._write_chunk(b"ANIM", struct.pack("<IH", 0, 0 if loops else 1))

    def add(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in milliseconds."""
        change = patch(self._before, pixels)
        self._before = pixels
        width, height = change.size
        numbers = (change.left // 2, change.top // 2, width - 1, height - 1, duration)
        self._write_chunk(
            b"ANMF", b"".join(map(_uint24, numbers)) + b"\0" + _encode_image(change.rgba)
        )

    def close(self) -> None:
        end = self._file.tell()
        self._file.seek(end - self.written + 4)
        self._file.write(struct.pack("<I", self.written - 8))
        self._file.seek(end)

    def _write_chunk(self, kind: bytes, data: bytes) -> None:
        self._write_bytes(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2))

    def _write_bytes(self, data: bytes) -> None:
        self.written += self._file.write(data)


def _uint24(number: int) -> bytes:
    return number.to_bytes(3, "little")


def _encode_image(rgba: np.ndarray) -> bytes:
    """Encode a picture and return its chunks without the file header."""
    file = BytesIO()
    picture = Image.fromarray(rgba)
    picture.save(file, "WEBP", lossless=True, quality=EFFORT, method=METHOD)
    return file.getvalue()[12:]
