"""Append-only arrays.

An extended array shares its buffer with the previous one, so appending costs only what is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class GrowingBuffer:
    """A buffer with spare capacity, shared by several `GrowingArray` objects.

    The part that any of them shows is never overwritten.
    """

    __slots__ = ("array", "used")

    def __init__(self, array: np.ndarray, used: int) -> None:
        self.array, self.used = array, used


class GrowingArray:
    """An immutable array whose extension costs time only for what is added.

    Parameters
    ----------
    values : ndarray
        All numbers, [number], read-only.
    """

    __slots__ = ("_buffer", "values")

    def __init__(self, room: GrowingBuffer, length: int) -> None:
        self._buffer = room
        self.values = room.array[:length]
        self.values.flags.writeable = False

    @classmethod
    def of(cls, values: ArrayLike, dtype: type = np.float64, capacity: int = 0) -> GrowingArray:
        """Copy numbers into a new array.

        Parameters
        ----------
        capacity : int
            Number of values for which memory is reserved; up to it, extending copies nothing.
        """
        given: np.ndarray = np.asarray(values, dtype=dtype).reshape(-1)
        array: np.ndarray = np.empty(max(len(given), capacity), dtype=dtype)
        array[: len(given)] = given
        return cls(GrowingBuffer(array, len(given)), len(given))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def capacity(self) -> int:
        """Number of values up to which it can be extended without copying."""
        return len(self._buffer.array)

    def extended(self, more: ArrayLike) -> GrowingArray:
        """Return an array with more numbers appended; this one is unchanged."""
        added, begin = np.asarray(more, dtype=self.values.dtype).reshape(-1), len(self)
        end, room = begin + len(added), self._buffer
        if room.used != begin or end > len(room.array):  # already extended by another, or full
            array = np.empty(max(end, 2 * begin), dtype=self.values.dtype)
            array[:begin] = self.values
            room = GrowingBuffer(array, begin)
        room.array[begin:end] = added
        room.used = end
        return GrowingArray(room, end)

    def until(self, length: int) -> GrowingArray:
        """Return the first `length` numbers."""
        return GrowingArray(self._buffer, length)
