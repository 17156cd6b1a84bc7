"""The rectangle of a frame that differs from the frame before; only that is encoded."""

from __future__ import annotations

import numpy as np
from msgspec import Struct


class FramePatch(Struct, frozen=True, eq=False):
    """The smallest rectangle that contains all changes.

    Parameters
    ----------
    left, top : int
        The position, even numbers.
    values : numpy.ndarray
        The new pixels, [row, column].
    is_new : numpy.ndarray
        Boolean, of the same shape: the changed pixels.
    """

    left: int
    top: int
    values: np.ndarray
    is_new: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """The width and height."""
        rows, columns = self.values.shape
        return columns, rows

    @property
    def rgba(self) -> np.ndarray:
        """The pixels as bytes, [row, column, channel]; unchanged ones are transparent."""
        words = np.where(self.is_new, self.values << np.uint32(8) | np.uint32(0xFF), 0)
        return words.astype(">u4").view(np.uint8).reshape(*words.shape, 4)


def patch(before: np.ndarray | None, after: np.ndarray) -> FramePatch:
    """Return the changed rectangle; one pixel where nothing changes."""
    if before is None:
        return FramePatch(0, 0, after, np.ones(after.shape, bool))
    is_new = before != after
    rows, columns = np.flatnonzero(is_new.any(axis=1)), np.flatnonzero(is_new.any(axis=0))
    if not len(rows):
        return FramePatch(0, 0, after[:1, :1], np.ones((1, 1), bool))
    top, left = int(rows[0]) & ~1, int(columns[0]) & ~1
    area = slice(top, int(rows[-1]) + 1), slice(left, int(columns[-1]) + 1)
    return FramePatch(left, top, after[area], is_new[area])
