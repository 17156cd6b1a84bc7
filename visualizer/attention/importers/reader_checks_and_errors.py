"""Helpers for readers of tensor files: size checks, natural order, errors."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.attention.importers.file_contents import ArrayEntry


def unreadable_file_error(sentence: str) -> InputError:
    """Return an `InputError` for a file that cannot be opened."""
    return InputError("open", sentence)


def lacks_document(path: Path) -> str:
    """Return the message for an exported file that does not contain its document."""
    return (
        f"“{path.name}” was exported by an older version and does not contain all settings. "
        "Open the original document and export it again."
    )


def in_natural_order(entries: list[ArrayEntry]) -> tuple[ArrayEntry, ...]:
    """Sort entries in natural order: layer 2 before layer 10."""
    return tuple(sorted(entries, key=lambda entry: natural_order_key(entry.name)))


def natural_order_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key for natural order: digits compare as numbers, other parts as text."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[:18]), part) if part.isdecimal() else (-1, part) for part in parts]


def check_declared_size(name: str, shape: tuple[int, ...], itemsize: int, room: int) -> None:
    """Raise `InputError` if the declared size of an array exceeds the available bytes."""
    if any(size < 0 for size in shape) or math.prod(shape) * itemsize > room:
        sizes = " × ".join(f"{size:,}" for size in shape[:8])
        raise unreadable_file_error(
            f"“{name}” is damaged: its shape is {sizes}, but the file contains less data."
        )


def widened(array: np.ndarray) -> np.ndarray:
    """Convert numbers to float32, or to float64 if they may need it."""
    return np.ascontiguousarray(array, dtype=np.float64 if is_double(array.dtype) else np.float32)


def is_double(dtype: np.dtype) -> bool:
    """Whether numbers of a type are converted to float64."""
    return dtype.itemsize > 4 or dtype.str[1:] == "u4"


@contextmanager
def as_input_errors(path: Path) -> Iterator[None]:
    """Convert any exception of a file-reading library to an `InputError` with a message.

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
