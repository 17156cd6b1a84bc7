"""What a file holds, named before any of it is read: an entry an array, and tokens."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_ENTRIES = 2_000
MOST_LETTERS = 2**24
NAMED = 4
"""So many entries are named in a sentence; of more, only how many there are."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayEntry:
    """An array of numbers in a file.

    Parameters
    ----------
    is_double : bool
        Whether its numbers need float64.
    read : callable
        Reads it: float32 or float64, of this shape.
    """

    name: str
    shape: tuple[int, ...]
    is_double: bool
    read: Callable[[], np.ndarray]

    @property
    def bytes(self) -> int:
        """What it takes when it is read."""
        return math.prod(self.shape) * (8 if self.is_double else 4)

    @property
    def said(self) -> str:
        """Its name and its size."""
        return f"{self.name or 'an array'} ({' × '.join(map(str, self.shape)) or 'one number'})"


@dataclass(frozen=True, slots=True, eq=False)
class FileContents:
    """All of a file.

    Parameters
    ----------
    entries : tuple of Entry
        In the order of their names, numbers within these by size.
    texts : dict
        Lists of tokens by the names they have there.
    left_out : tuple of str
        What is neither, in words.
    """

    entries: tuple[ArrayEntry, ...]
    texts: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """What there is, in a sentence."""
        all_ = [*(entry.said for entry in self.entries), *self.left_out]
        more = f" and {len(all_) - NAMED:,} more" if len(all_) > NAMED else ""
        return f"Found: {', '.join(all_[:NAMED])}{more}." if all_ else "There is nothing in it."


def refused(sentence: str) -> InputError:
    """Say why a file cannot be opened."""
    return InputError("open", sentence)


def by_name(entries: list[ArrayEntry]) -> tuple[ArrayEntry, ...]:
    """Sort entries as a reader would: layer 2 before layer 10."""
    return tuple(sorted(entries, key=lambda entry: natural(entry.name)))


def natural(name: str) -> list[tuple[int, str]]:
    """Give what names are sorted by: of digits their number, of all else the letters."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[:18]), part) if part.isdecimal() else (-1, part) for part in parts]


def fits(name: str, shape: tuple[int, ...], itemsize: int, room: int) -> None:
    """Raise `InputError` where an array says that it is larger than what its file holds."""
    if any(size < 0 for size in shape) or math.prod(shape) * itemsize > room:
        sizes = " × ".join(f"{size:,}" for size in shape[:8])
        raise refused(f"“{name}” says that it is {sizes}, and its file holds less. It is damaged.")


def widened(array: np.ndarray) -> np.ndarray:
    """Give numbers as float32, or as float64 where they may need it."""
    return np.ascontiguousarray(array, dtype=np.float64 if is_double(array.dtype) else np.float32)


def is_double(dtype: np.dtype) -> bool:
    """Whether numbers of a type are held as float64."""
    return dtype.itemsize > 4 or dtype.str[1:] == "u4"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in a sentence what goes wrong in a library that reads a file: any file can be opened.

    Raises
    ------
    InputError
        In place of whatever the library raised.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise refused(f"There is not enough memory to open “{path.name}”.") from error
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise refused(f"“{path.name}” could not be read: {reason}.") from error
    except Exception as error:  # what libraries raise at damaged files has no end
        kind = path.suffix.removeprefix(".") or "known"
        raise refused(f"“{path.name}” is no {kind} file, or it is damaged.") from error
