"""How far a long piece of work is, and the wish that it stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

Progress = Callable[[int, int], None]
"""Told what is done and of how much; raises `CancelledError` where the work is to stop."""


class CancelledError(Exception):
    """The work was called off; nothing of it stays."""


def no_progress(done: int, of: int) -> None:
    """Tell nobody how far it is."""


BLOCK = 64


class ProgressCounter:
    """Tells at each turn of a loop how far it is, in blocks of so many turns."""

    def __init__(self, progress: Progress, of: int, block: int = 1) -> None:
        self._progress, self._of, self._block, self._done = progress, of, block, 0

    def __call__(self) -> None:
        """Tell that one more is done."""
        self._done += 1
        self._progress(-(-self._done // self._block), -(-self._of // self._block))


def part_of_progress(progress: Progress, first: int, last: int) -> Progress:
    """Give what is told of a part of the work that goes from one percentage to another.

    In tenths: most figures are there at once, and need no words.
    """

    def tell(done: int, of: int) -> None:
        progress((first + (last - first) * done // max(1, of)) // 10, 10)

    return tell


class ProgressReporter:
    """A file that is written through, which tells at each write that the work goes on.

    For what writes a whole file by itself: what is told may raise, and ends it.
    """

    def __init__(self, file: BinaryIO, progress: Progress, of: int) -> None:
        self._file, self._progress, self._of, self._written = file, progress, max(1, of), 0

    def write(self, data: bytes) -> int:
        """Write bytes, and tell how many there are."""
        self._written += len(data)
        self._progress(min(self._written, self._of), self._of)
        return self._file.write(data)

    def flush(self) -> None:
        """Have the system take what is written."""
        self._file.flush()
