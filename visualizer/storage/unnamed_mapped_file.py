"""Memory that is a file without a name, of which nothing is left, however the process ends."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from visualizer.progress_callback import check_stopped
from visualizer.storage.private_folder import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN_AT_ONCE = 2**22
_UNSUPPORTED_ERRORS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Errors of file systems that reserve nothing without writing."""


def map_unnamed_file(folder: Path, size: int) -> mmap.mmap:
    """Map so many bytes of a new file; the disk has them back once the mapping is gone.

    Linux makes the file without a name, others remove the name at once; Windows removes it with
    the last handle. All of it is reserved beforehand: a process that writes to a mapped page for
    which the disk has no room is ended by the system.

    Parameters
    ----------
    folder : Path
        Made where it is missing, the user's alone.
    size : int
        In bytes; at least 1.

    Raises
    ------
    OSError
        When the folder cannot be written, the disk or the user's share of it is full, or a limit
        of the process is passed.
    """
    make_private_folder(folder)
    with TemporaryFile(dir=folder, buffering=0) as file:
        _reserve(file, size)
        return mmap.mmap(file.fileno(), size)  # which has a descriptor of its own


def _reserve(file: IO[bytes], size: int) -> None:
    if sys.platform == "linux":
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRORS:
                raise
        else:
            return
    left, zeros = size, memoryview(bytes(WRITTEN_AT_ONCE))
    while left:
        check_stopped()
        left -= file.write(zeros[:left])
