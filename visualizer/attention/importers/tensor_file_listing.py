"""Lists the arrays and fields of a tensor file, and checks them before any array is read."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np

MAX_ENTRIES = 2_000
MAX_TEXT_CHARACTERS = 2**24
MAX_NAMED_ENTRIES = 4
"""Maximum number of entries that a message names; further entries are only counted."""


class ArrayEntry(Struct, frozen=True, eq=False):
    """An array of numbers in a file.

    Parameters
    ----------
    is_double : bool
        Whether the numbers need float64.
    read : callable
        Returns the array, in float32 or float64.
    """

    name: str
    shape: tuple[int, ...]
    is_double: bool
    read: Callable[[], np.ndarray]

    @property
    def bytes(self) -> int:
        """Size in bytes of the array after it has been read."""
        return math.prod(self.shape) * (8 if self.is_double else 4)

    @property
    def description(self) -> str:
        """Name and shape, as shown in messages."""
        return f"{self.name or 'an array'} ({' × '.join(map(str, self.shape)) or 'a scalar'})"


class TensorFileContents(Struct, frozen=True, eq=False):
    """The listed contents of a tensor file.

    Parameters
    ----------
    entries : tuple of ArrayEntry
        The arrays, in natural order of their names.
    texts : dict of str to tuple of str
        Lists of tokens, by name.
    left_out : tuple of str
        Descriptions of unsupported contents.
    """

    entries: tuple[ArrayEntry, ...]
    texts: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Sentence that lists the contents, for messages."""
        all_ = [*(entry.description for entry in self.entries), *self.left_out]
        more = (
            f" and {len(all_) - MAX_NAMED_ENTRIES:,} more" if len(all_) > MAX_NAMED_ENTRIES else ""
        )
        return (
            f"Found: {', '.join(all_[:MAX_NAMED_ENTRIES])}{more}." if all_ else "The file is empty."
        )


def unreadable_file_error(sentence: str) -> InputError:
    """Return the `InputError` for a file that cannot be opened."""
    return InputError("open", sentence)


def missing_document_message(path: Path) -> str:
    """Return the message for an exported file that does not contain its document."""
    return (
        f"“{path.name}” was exported by an older version and does not contain all settings. "
        "Open the original document and export it again."
    )


def sort_naturally(entries: list[ArrayEntry]) -> tuple[ArrayEntry, ...]:
    """Sort entries in natural order, with layer 2 before layer 10."""
    return tuple(sorted(entries, key=lambda entry: natural_order_key(entry.name)))


def natural_order_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key for natural order, in which digits are compared as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[:18]), part) if part.isdecimal() else (-1, part) for part in parts]


def check_declared_size(name: str, shape: tuple[int, ...], itemsize: int, room: int) -> None:
    """Raise `InputError` if, according to its header, an array exceeds the available bytes."""
    if any(size < 0 for size in shape) or math.prod(shape) * itemsize > room:
        sizes = " × ".join(f"{size:,}" for size in shape[:8])
        raise unreadable_file_error(
            f"“{name}” is damaged: its shape is {sizes}, but the file contains less data."
        )


def is_double(dtype: np.dtype) -> bool:
    """Return whether numbers of a type are converted to float64."""
    return dtype.itemsize > 4 or dtype.str[1:] == "u4"


@contextmanager
def convert_read_errors(path: Path) -> Iterator[None]:
    """Convert any exception from a file-reading library to an `InputError` within the context.

    Raises
    ------
    InputError
        In place of the library's exception.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise unreadable_file_error(f"There is not enough memory to open “{path.name}”.") from error
    except OSError as error:
        reason = error.strerror or "the file is damaged"
        raise unreadable_file_error(f"“{path.name}” could not be read: {reason}.") from error
    except Exception as error:  # libraries raise all kinds of exceptions for damaged files
        kind = path.suffix.removeprefix(".") or "tensor"
        raise unreadable_file_error(
            f"“{path.name}” is not a valid {kind} file, or it is damaged."
        ) from error
