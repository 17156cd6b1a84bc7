"""A lock that ends with the program that holds it, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Lock:
    """Holds a file that no other program can hold; let go of with `release`.

    Parameters
    ----------
    path : Path
        The file, there or not yet.

    Raises
    ------
    BlockingIOError
        When another program holds it, or this one elsewhere.
    OSError
        When the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._file)
            self._check()
        except OSError:
            os.close(self._file)
            raise

    def _check(self) -> None:
        """Whoever held it before may have removed the file in between."""
        if sys.platform != "win32" and os.fstat(self._file).st_ino != self.path.stat().st_ino:
            raise FileNotFoundError(str(self.path))

    def release(self) -> None:
        """Let go of the file and remove it."""
        if sys.platform == "win32":  # where a file that is open cannot be removed
            os.close(self._file)
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        else:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            os.close(self._file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
