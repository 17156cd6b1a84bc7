"""Encodes films as GIF, one frame at a time; Pillow's own writer keeps all frames until the end.

One palette without dithering serves all frames: it has the most frequent colours, then those
farthest from it. Source: CompuServe, "Graphics Interchange Format, Version 89a", 1990; Pillow does
the LZW coding.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from PIL import GifImagePlugin, Image

from visualizer.export.films.frame_difference import patch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"


class GifEncoder:
    """Encoder of a GIF with one palette for all frames."""

    unit_ms = 10

    def __init__(
        self, file: BinaryIO, size: tuple[int, int], loops: bool, samples: Iterable[np.ndarray]
    ) -> None:
        self.written = 0
        self._file = file
        self._palette = ColourPalette(samples)
        self._before: np.ndarray | None = None
        self._write_bytes(
            b"GIF89a" + struct.pack("<HHBBB", *size, 0xF7, 0, 0) + self._palette.table
        )
        if loops:
            self._write_bytes(FOREVER)

    def add(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in hundredths of a second."""
        entries = self._palette.entries(pixels)
        change = patch(self._before, entries)
        self._before = entries
        data = change.values.copy()
        data[~change.is_new] = MAX_COLOURS
        parts = GifImagePlugin.getdata(
            Image.fromarray(data),
            (change.left, change.top),
            duration=duration * self.unit_ms,
            transparency=MAX_COLOURS,
            disposal=1,
        )
        self._write_bytes(b"".join(parts))

    def close(self) -> None:
        self._write_bytes(b";")

    def _write_bytes(self, data: bytes) -> None:
        self.written += self._file.write(data)


MAX_COLOURS = 255
"""One of the 256 entries is transparent, for unchanged pixels."""
EXACT = 96
RARE = 0.7
"""Exponent of the pixel count that weights a colour's error."""


class ColourPalette:
    """A palette of up to 255 colours, and the nearest entry of any colour.

    Parameters
    ----------
    pictures : iterable of numpy.ndarray
        Arrays of 0xrrggbb from which colours are chosen.
    """

    def __init__(self, pictures: Iterable[np.ndarray]) -> None:
        self.colours = _choose_colours(*_count_colours(pictures))
        self._nearest = np.full(1 << 24, MAX_COLOURS, np.uint8)
        self._nearest[self.colours] = np.arange(len(self.colours), dtype=np.uint8)

    @property
    def table(self) -> bytes:
        """All 256 entries as bytes; unused ones are black."""
        return _split_channels(self.colours).astype(np.uint8).tobytes().ljust(768, b"\0")

    def entries(self, words: np.ndarray) -> np.ndarray:
        """Return the index of the nearest colour for each pixel."""
        found: np.ndarray = self._nearest[words]
        is_unknown = found == MAX_COLOURS
        if is_unknown.any():
            unknown = np.unique(words[is_unknown])
            for some in np.array_split(unknown, len(unknown) // 4096 + 1):
                self._nearest[some] = self._find_nearest(some)
            found = self._nearest[words]
        return found

    def _find_nearest(self, words: np.ndarray) -> np.ndarray:
        away = _split_channels(words)[:, None] - _split_channels(self.colours)
        nearest: np.ndarray = np.square(away).sum(axis=2).argmin(axis=1)
        return nearest


def _split_channels(words: np.ndarray) -> np.ndarray:
    return np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=-1).astype(np.int32)


def _count_colours(pictures: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return all colours by descending frequency, and their numbers of pixels."""
    colours, counts = [], []
    for picture in pictures:
        words = picture.ravel()
        starts = np.concatenate([[0], np.flatnonzero(words[1:] != words[:-1]) + 1])  # of runs
        colours.append(words[starts])
        counts.append(np.diff(np.append(starts, len(words))))
    found, which = np.unique(np.concatenate(colours), return_inverse=True)
    total = np.bincount(which, np.concatenate(counts))
    order = np.argsort(-total, kind="stable")
    return found[order], total[order]


def _choose_colours(colours: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Choose the most frequent colours, then repeatedly the one with the largest weighted error."""
    channels, chosen = (
        _split_channels(colours).astype(np.float32),
        [*range(min(EXACT, len(colours)))],
    )
    weights = counts**RARE
    missed = np.full(len(colours), np.inf)
    for at in chosen:
        missed = np.minimum(missed, np.square(channels - channels[at]).sum(axis=1))
    while len(chosen) < min(MAX_COLOURS, len(colours)):
        at = int((missed * weights).argmax())
        chosen.append(at)
        missed = np.minimum(missed, np.square(channels - channels[at]).sum(axis=1))
    return colours[chosen]
