"""A lock that ends with the program that holds it, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from visualizer.disk.contained_folder import ContainedFile

if TYPE_CHECKING:
    from pathlib import Path


class Lock:
    """Holds a file that no other program can hold; let go of with `release`.

    Parameters
    ----------
    path : Path
        The file, there or not yet; a link is not followed.

    Raises
    ------
    BlockingIOError
        When another program holds it, or this one elsewhere.
    OSError
        When the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._contained = ContainedFile.at(path)
        self._file = self._contained.descriptor(os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._file)
            self._check()
        except OSError:
            os.close(self._file)
            raise

    def _check(self) -> None:
        """Whoever held it before may have removed the file in between."""
        if sys.platform != "win32" and os.fstat(self._file).st_ino != self._contained.stat().st_ino:
            raise FileNotFoundError(str(self.path))

    def release(self) -> None:
        """Let go of the file and remove it."""
        if sys.platform == "win32":  # where a file that is open cannot be removed
            os.close(self._file)
            with suppress(OSError):
                self._contained.unlink(missing_ok=True)
        else:
            with suppress(OSError):
                self._contained.unlink(missing_ok=True)
            os.close(self._file)


def is_locked(path: Path) -> bool:
    """Whether a program holds a `Lock`; nothing is written to find out."""
    file = ContainedFile.at(path)
    if not file.is_file():
        return False
    try:
        descriptor = file.descriptor(os.O_RDONLY)
    except FileNotFoundError:  # let go of in the meantime
        return False
    except OSError:
        return True
    try:
        _lock_shared(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error

    _lock_shared = _lock
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_shared(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
