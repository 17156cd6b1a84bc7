"""File lock that the system releases when the process ends, even after a crash.

Files are opened here and locked by filelock: filelock's own `FileLock` would create the parent
folders and, in some versions, truncate the file. filelock has no shared locks, so functions that
only query the state use a lock of the operating system.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from filelock import lock_descriptor

from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """Exclusive lock on a file, held until `release` is called.

    Parameters
    ----------
    path : Path
        The file, existing or not; a link is not followed.

    Raises
    ------
    BlockingIOError
        If another process, or another object in this process, holds the lock.
    OSError
        If the file cannot be created, or is a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SymlinkSafeFile.from_path(path)
        self._descriptor = self._file.open_descriptor(os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not lock_descriptor(self._descriptor, blocking=False):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
            self._check_not_removed()
        except OSError:
            os.close(self._descriptor)
            raise

    def _check_not_removed(self) -> None:
        """Raise `FileNotFoundError` if the previous lock holder has just removed the file."""
        if (
            sys.platform != "win32"
            and os.fstat(self._descriptor).st_ino != self._file.stat().st_ino
        ):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))

    def release(self) -> None:
        """Release the lock and remove the file."""
        if sys.platform == "win32":  # an open file cannot be removed on Windows
            os.close(self._descriptor)
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
        if sys.platform != "win32":
            os.close(self._descriptor)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock; nothing is created, written or removed.

    Several processes can query the lock at the same time; on Windows, one of them may be mistaken
    for a lock holder.

    Raises
    ------
    OSError
        If the file exists but cannot be read, or is a link.
    """
    try:
        file = SymlinkSafeFile.from_path(path).open_descriptor(os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock_shared(file)
    finally:
        os.close(file)


def _try_lock_shared(file: int) -> bool:
    """Lock a file until it is closed; on POSIX, the lock is shared with other readers."""
    if sys.platform == "win32":
        return lock_descriptor(file, blocking=False)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the error depends on the file system
        return False
    return True
