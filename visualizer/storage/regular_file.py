"""Opens regular files by path, and immediately rejects pipes, devices, sockets and folders.

Opening a pipe blocks until a program writes to it, and reading a device may never end, so files are
checked both before and after they are opened.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

FILE_REQUIRED_ERROR = "it is not a file"
INVALID_NAME_ERROR = "the file name is invalid"
_FILE_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
NONBLOCKING_FLAGS = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)
"""Flags for `os.open` that prevent it from blocking on a pipe."""


FileVersion = tuple[int, int, int]
"""Version of a file's content: inode, modification time in nanoseconds, and size in bytes."""


def file_version(found: os.stat_result) -> FileVersion:
    """Return the version of a file with the given status."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_file_version(path: Path) -> FileVersion | None:
    """Return the version of the file at a path, or None if the file does not exist."""
    try:
        return file_version(path.stat())
    except FileNotFoundError:
        return None


def check_regular_status(found: os.stat_result, name: str) -> None:
    """Raise `OSError` with a reason for the user unless the status is that of a regular file."""
    if not stat.S_ISREG(found.st_mode):
        kind = next((f", but {words}" for is_of, words in _FILE_KINDS if is_of(found.st_mode)), "")
        raise OSError(errno.EINVAL, f"{FILE_REQUIRED_ERROR}{kind}", name)


def check_regular_file(path: Path) -> os.stat_result:
    """Return the status of a regular file or of a link to one.

    Raises
    ------
    OSError
        If the path does not exist, or is not a regular file.
    """
    try:
        found = path.stat()
    except ValueError as error:  # a NUL character, or characters that the file system cannot encode
        raise OSError(errno.EINVAL, INVALID_NAME_ERROR, str(path)) from error
    check_regular_status(found, str(path))
    return found


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading.

    Raises
    ------
    OSError
        If the file cannot be opened, or is not a regular file.
    """
    check_regular_file(path)  # opening a device can have side effects
    return open(path, "rb", opener=_open_checked)


def _open_checked(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | NONBLOCKING_FLAGS)
    try:
        check_regular_status(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
