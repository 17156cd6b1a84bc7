"""Listing of the arrays and texts in a tensor file, made before any array is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


MAX_ENTRIES = 2_000
MAX_TEXT_CHARACTERS = 2**24
NAMED = 4
"""Maximum number of entries named in a message; the others are only counted."""


class ArrayEntry(Struct, frozen=True, eq=False):
    """An array of numbers in a file.

    Parameters
    ----------
    is_double : bool
        Whether its numbers need float64.
    read : callable
        Returns the array, float32 or float64, of this shape.
    """

    name: str
    shape: tuple[int, ...]
    is_double: bool
    read: Callable[[], np.ndarray]

    @property
    def bytes(self) -> int:
        """Bytes of the array once it is read."""
        return math.prod(self.shape) * (8 if self.is_double else 4)

    @property
    def said(self) -> str:
        """Name and shape, for messages."""
        return f"{self.name or 'an array'} ({' × '.join(map(str, self.shape)) or 'a scalar'})"


class FileContents(Struct, frozen=True, eq=False):
    """The listed contents of a tensor file.

    Parameters
    ----------
    entries : tuple of ArrayEntry
        In natural order of their names.
    texts : dict of str to tuple of str
        Lists of tokens by name.
    left_out : tuple of str
        Descriptions of unsupported contents.
    """

    entries: tuple[ArrayEntry, ...]
    texts: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """A sentence that lists the contents, for messages."""
        all_ = [*(entry.said for entry in self.entries), *self.left_out]
        more = f" and {len(all_) - NAMED:,} more" if len(all_) > NAMED else ""
        return f"Found: {', '.join(all_[:NAMED])}{more}." if all_ else "The file is empty."
