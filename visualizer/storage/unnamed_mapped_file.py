"""Memory map backed by an anonymous temporary file."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from visualizer.progress import check_stopped
from visualizer.storage.link_safe_folder import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

ZEROS_BLOCK_BYTES = 2**22
_UNSUPPORTED_ERRORS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Errors of file systems that cannot reserve space without writing."""


def map_unnamed_file(folder: Path, size: int) -> mmap.mmap:
    """Map a new anonymous file; its disk space is freed when the mapping is closed.

    Linux creates an unnamed file, other POSIX systems remove its name at once, and Windows removes
    the file with its last handle. The file therefore never outlives the process. All disk space is
    reserved in advance: the system kills a process that writes to a mapped page if the disk is
    full.

    Parameters
    ----------
    folder : Path
        Created for the user only if it does not exist.
    size : int
        In bytes; at least 1.

    Raises
    ------
    OSError
        If the folder cannot be written, the disk or the user's quota is full, or a limit of the
        process is exceeded.
    """
    make_private_folder(folder)
    with TemporaryFile(dir=folder, buffering=0) as file:
        _reserve_space(file, size)
        return mmap.mmap(file.fileno(), size)  # which duplicates the descriptor


def _reserve_space(file: IO[bytes], size: int) -> None:
    if sys.platform == "linux":
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRORS:
                raise
        else:
            return
    left, zeros = size, memoryview(bytes(ZEROS_BLOCK_BYTES))
    while left:
        check_stopped()
        left -= file.write(zeros[:left])
