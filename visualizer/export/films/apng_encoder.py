"""Encodes films as animated PNG with exact colours (W3C PNG specification, third edition)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from visualizer.export.films.frame_difference import patch

if TYPE_CHECKING:
    from typing import BinaryIO

RGBA = 6
OVER = 1
LEVEL = 6
MAX_FRAME_TIME_UNITS = 2**16 - 1
"""The largest number of time units that a frame can have."""


class ApngEncoder:
    """Encoder of an animated PNG."""

    unit_ms = 1

    def __init__(self, file: BinaryIO, size: tuple[int, int], count: int, loops: bool) -> None:
        self.written = 0
        self._file = file
        self._before: np.ndarray | None = None
        self._number = 0
        self._write_bytes(b"\x89PNG\r\n\x1a\n")
        self._write_chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, RGBA, 0, 0, 0))
        self._write_chunk(b"acTL", struct.pack(">II", count, 0 if loops else 1))

    def add(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in milliseconds."""
        change = patch(self._before, pixels)
        place = (*change.size, change.left, change.top)
        unit = (
            1 if duration <= MAX_FRAME_TIME_UNITS else 10
        )  # of a slow film, in hundredths of a second
        time = (round(duration / unit), 1000 // unit)
        self._write_chunk(
            b"fcTL", self._next_sequence_number() + struct.pack(">IIIIHHBB", *place, *time, 0, OVER)
        )
        rows = change.rgba.reshape(len(change.values), -1)
        data = zlib.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes(), LEVEL)
        if self._before is None:
            self._write_chunk(b"IDAT", data)
        else:
            self._write_chunk(b"fdAT", self._next_sequence_number() + data)
        self._before = pixels

    def close(self) -> None:
        self._write_chunk(b"IEND", b"")

    def _next_sequence_number(self) -> bytes:
        self._number += 1
        return struct.pack(">I", self._number - 1)

    def _write_chunk(self, kind: bytes, data: bytes) -> None:
        check = struct.pack(">I", zlib.crc32(kind + data))
        self._write_bytes(struct.pack(">I", len(data)) + kind + data + check)

    def _write_bytes(self, data: bytes) -> None:
        self.written += self._file.write(data)
