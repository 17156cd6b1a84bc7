"""Numbers that only become more: what was handed out stays, what comes is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Room:
    """A place for numbers, larger than what is in it.

    Several values may show the beginning of one: all of it that they show is never written again.
    """

    __slots__ = ("array", "used")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.used = array, len(array)


class Grown:
    """An array that can be extended in time that follows what is added, not what is there.

    Parameters
    ----------
    values : ndarray
        All numbers, [number], read-only.
    """

    __slots__ = ("_room", "values")

    def __init__(self, room: Room, length: int) -> None:
        self._room = room
        self.values = room.array[:length]
        self.values.flags.writeable = False

    @classmethod
    def of(cls, values: ArrayLike, dtype: type = np.float64) -> Grown:
        """Hold a copy of numbers."""
        array: np.ndarray = np.array(values, dtype=dtype).reshape(-1)
        return cls(Room(array), len(array))

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, more: ArrayLike) -> Grown:
        """Give these numbers and others after them; this one stays as it is."""
        added, begin = np.asarray(more, dtype=self.values.dtype).reshape(-1), len(self)
        end, room = begin + len(added), self._room
        if room.used != begin or end > len(room.array):  # another one grew there, or it is full
            array = np.empty(max(end, 2 * begin), dtype=self.values.dtype)
            array[:begin] = self.values
            room = Room(array)
        room.array[begin:end] = added
        room.used = end
        return Grown(room, end)

    def until(self, length: int) -> Grown:
        """Give the first numbers of these."""
        return Grown(self._room, length)
