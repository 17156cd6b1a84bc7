"""Tasks of which it is known what a query should read, as rows of characters."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.settings import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHABETS = {
    Kind.REPEAT: ascii_lowercase,
    Kind.COPY: ".>" + ascii_lowercase,
    Kind.BRACKETS: "()<>[]{}",
    Kind.SORTING: ".>" + ascii_lowercase,
    Kind.ADDITION: "+.0123456789=",
}
"""The characters of each task, in the order of the alphabet: the place is the number."""


def rows(kind: Kind, count: int, length: int, generator: np.random.Generator) -> np.ndarray:
    """Make rows of a task, int64 [count, length], by their places in its alphabet."""
    return _ROWS[kind](count, length, generator)


def _repeated(count: int, length: int, generator: np.random.Generator) -> np.ndarray:
    """A segment of distinct letters, again and again."""
    letters = generator.random((count, len(ALPHABETS[Kind.REPEAT]))).argsort(axis=1)
    most = min(max(2, length // 2), letters.shape[1])
    sizes = generator.integers(2, most + 1, size=(count, 1))
    return np.take_along_axis(letters, np.arange(length) % sizes, axis=1)


_ROWS: dict[Kind, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    Kind.REPEAT: _repeated,
}
