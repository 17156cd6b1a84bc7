"""Encodes animations as GIF, APNG and WebP, frame by frame; Pillow would keep all frames in memory.

All frames of a GIF share one palette, without dithering. The palette consists of the most frequent
colours and of the colours that differ most from those chosen before. Source: CompuServe,
"Graphics Interchange Format, Version 89a", 1990; Pillow does the LZW compression.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from PIL import GifImagePlugin, Image

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO


class FramePatch(Struct, frozen=True, eq=False):
    """The smallest rectangle that contains all changed pixels of a frame.

    Parameters
    ----------
    left, top : int
        The position in pixels; both are even.
    values : numpy.ndarray
        The new pixels, [row, column].
    is_new : numpy.ndarray
        Boolean mask of the changed pixels, in the same shape.
    """

    left: int
    top: int
    values: np.ndarray
    is_new: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """The width and height in pixels."""
        rows, columns = self.values.shape
        return columns, rows

    @property
    def rgba(self) -> np.ndarray:
        """The pixels as bytes [row, column, channel]; unchanged pixels are transparent."""
        pixels = np.where(self.is_new, self.values << np.uint32(8) | np.uint32(0xFF), 0)
        return pixels.astype(">u4").view(np.uint8).reshape(*pixels.shape, 4)


def find_changed_rectangle(before: np.ndarray | None, after: np.ndarray) -> FramePatch:
    """Return the changed rectangle, or a single pixel if nothing has changed."""
    if before is None:
        return FramePatch(0, 0, after, np.ones(after.shape, bool))
    is_new = before != after
    rows, columns = np.flatnonzero(is_new.any(axis=1)), np.flatnonzero(is_new.any(axis=0))
    if not len(rows):
        return FramePatch(0, 0, after[:1, :1], np.ones((1, 1), bool))
    top, left = int(rows[0]) & ~1, int(columns[0]) & ~1
    area = slice(top, int(rows[-1]) + 1), slice(left, int(columns[-1]) + 1)
    return FramePatch(left, top, after[area], is_new[area])


class FrameEncoder:
    """Base class of the encoders, which counts the written bytes and stores the last frame."""

    def __init__(self, file: BinaryIO) -> None:
        self.written = 0
        self._file = file
        self._last_pixels: np.ndarray | None = None

    def _find_change(self, pixels: np.ndarray) -> FramePatch:
        """Return the difference from the last frame and store the new frame."""
        change = find_changed_rectangle(self._last_pixels, pixels)
        self._last_pixels = pixels
        return change

    def _write_bytes(self, data: bytes) -> None:
        self.written += self._file.write(data)


GIF_LOOP_FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"


class GifEncoder(FrameEncoder):
    """Encoder for GIF, with one palette for all frames."""

    unit_ms = 10

    def __init__(
        self, file: BinaryIO, size: tuple[int, int], loops: bool, samples: Iterable[np.ndarray]
    ) -> None:
        super().__init__(file)
        self._palette = ColourPalette(samples)
        self._write_bytes(
            b"GIF89a" + struct.pack("<HHBBB", *size, 0xF7, 0, 0) + self._palette.table_bytes
        )
        if loops:
            self._write_bytes(GIF_LOOP_FOREVER)

    def add_frame(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in hundredths of a second."""
        change = self._find_change(self._palette.nearest_indices(pixels))
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


MAX_COLOURS = 255
"""Maximum number of colours; the 256th entry is transparent, for unchanged pixels."""
MAX_EXACT_COLOURS = 96
RARE_COLOUR_EXPONENT = 0.7
"""The weight of a colour's error is the number of its pixels raised to this power."""


class ColourPalette:
    """Palette of up to 255 colours that finds the nearest entry for any colour.

    Parameters
    ----------
    pictures : iterable of numpy.ndarray
        Images as arrays of 0xrrggbb, from which the colours are chosen.
    """

    def __init__(self, pictures: Iterable[np.ndarray]) -> None:
        self.colours = _choose_colours(*_count_colours(pictures))
        self._nearest = np.full(1 << 24, MAX_COLOURS, np.uint8)
        self._nearest[self.colours] = np.arange(len(self.colours), dtype=np.uint8)

    @property
    def table_bytes(self) -> bytes:
        """All 256 entries as bytes; unused entries are black."""
        return _split_channels(self.colours).astype(np.uint8).tobytes().ljust(768, b"\0")

    def nearest_indices(self, words: np.ndarray) -> np.ndarray:
        """Return the index of the nearest colour for each 0xrrggbb pixel."""
        indices: np.ndarray = self._nearest[words]
        is_unknown = indices == MAX_COLOURS
        if is_unknown.any():
            unknown = np.unique(words[is_unknown])
            for part in np.array_split(unknown, len(unknown) // 4096 + 1):
                self._nearest[part] = self._find_nearest(part)
            indices = self._nearest[words]
        return indices

    def _find_nearest(self, words: np.ndarray) -> np.ndarray:
        differences = _split_channels(words)[:, None] - _split_channels(self.colours)
        nearest: np.ndarray = np.square(differences).sum(axis=2).argmin(axis=1)
        return nearest


def _split_channels(words: np.ndarray) -> np.ndarray:
    return np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=-1).astype(np.int32)


def _count_colours(pictures: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return all colours, sorted by descending frequency, and the number of pixels of each."""
    colours, counts = [], []
    for picture in pictures:
        words = picture.ravel()
        starts = np.concatenate([[0], np.flatnonzero(words[1:] != words[:-1]) + 1])  # of runs
        colours.append(words[starts])
        counts.append(np.diff(np.append(starts, len(words))))
    unique_colours, indices = np.unique(np.concatenate(colours), return_inverse=True)
    total = np.bincount(indices, np.concatenate(counts))
    order = np.argsort(-total, kind="stable")
    return unique_colours[order], total[order]


def _choose_colours(colours: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Choose the most frequent colours, then, one by one, those with the largest weighted error."""
    channels = _split_channels(colours).astype(np.float32)
    chosen = [*range(min(MAX_EXACT_COLOURS, len(colours)))]
    weights = counts**RARE_COLOUR_EXPONENT
    errors = np.full(len(colours), np.inf)
    for index in chosen:
        errors = np.minimum(errors, np.square(channels - channels[index]).sum(axis=1))
    while len(chosen) < min(MAX_COLOURS, len(colours)):
        index = int((errors * weights).argmax())
        chosen.append(index)
        errors = np.minimum(errors, np.square(channels - channels[index]).sum(axis=1))
    return colours[chosen]


APNG_RGBA = 6
BLEND_OVER = 1
LEVEL = 6
MAX_FRAME_TIME_UNITS = 2**16 - 1
"""Maximum duration of a frame, in time units."""


class ApngEncoder(FrameEncoder):
    """Encoder for animated PNG."""

    unit_ms = 1

    def __init__(self, file: BinaryIO, size: tuple[int, int], frames: int, loops: bool) -> None:
        super().__init__(file)
        self._sequence_numbers = count()
        self._write_bytes(b"\x89PNG\r\n\x1a\n")
        self._write_chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, APNG_RGBA, 0, 0, 0))
        self._write_chunk(b"acTL", struct.pack(">II", frames, 0 if loops else 1))

    def add_frame(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in milliseconds."""
        is_first = self._last_pixels is None
        change = self._find_change(pixels)
        place = (*change.size, change.left, change.top)
        # Durations that do not fit in milliseconds are written in hundredths of a second.
        unit = 1 if duration <= MAX_FRAME_TIME_UNITS else 10
        time = (round(duration / unit), 1000 // unit)
        self._write_chunk(
            b"fcTL",
            self._pack_sequence_number() + struct.pack(">IIIIHHBB", *place, *time, 0, BLEND_OVER),
        )
        rows = change.rgba.reshape(len(change.values), -1)
        data = zlib.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes(), LEVEL)
        if is_first:
            self._write_chunk(b"IDAT", data)
        else:
            self._write_chunk(b"fdAT", self._pack_sequence_number() + data)

    def close(self) -> None:
        self._write_chunk(b"IEND", b"")

    def _pack_sequence_number(self) -> bytes:
        return struct.pack(">I", next(self._sequence_numbers))

    def _write_chunk(self, kind: bytes, data: bytes) -> None:
        check = struct.pack(">I", zlib.crc32(kind + data))
        self._write_bytes(struct.pack(">I", len(data)) + kind + data + check)


ANIMATED, SEE_THROUGH = 0x02, 0x10
METHOD, EFFORT = 1, 20
"""WebP method (0–6) and effort (0–100); higher values save little space and take much longer."""


class WebpEncoder(FrameEncoder):
    """Encoder for animated WebP; the file size in the header is written at the end."""

    unit_ms = 1

    def __init__(self, file: BinaryIO, size: tuple[int, int], loops: bool) -> None:
        super().__init__(file)
        self._write_bytes(b"RIFF\0\0\0\0WEBP")
        flags = struct.pack("<I", ANIMATED | SEE_THROUGH)
        self._write_chunk(b"VP8X", flags + _pack_uint24(size[0] - 1) + _pack_uint24(size[1] - 1))
        self._write_chunk(b"ANIM", struct.pack("<IH", 0, 0 if loops else 1))

    def add_frame(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in milliseconds."""
        change = self._find_change(pixels)
        width, height = change.size
        numbers = (change.left // 2, change.top // 2, width - 1, height - 1, duration)
        self._write_chunk(
            b"ANMF", b"".join(map(_pack_uint24, numbers)) + b"\0" + _encode_webp_image(change.rgba)
        )

    def close(self) -> None:
        end = self._file.tell()
        self._file.seek(end - self.written + 4)
        self._file.write(struct.pack("<I", self.written - 8))
        self._file.seek(end)

    def _write_chunk(self, kind: bytes, data: bytes) -> None:
        self._write_bytes(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2))


def _pack_uint24(number: int) -> bytes:
    return number.to_bytes(3, "little")


def _encode_webp_image(rgba: np.ndarray) -> bytes:
    """Encode an image and return its chunks without the file header."""
    file = BytesIO()
    picture = Image.fromarray(rgba)
    picture.save(file, "WEBP", lossless=True, quality=EFFORT, method=METHOD)
    return file.getvalue()[12:]
