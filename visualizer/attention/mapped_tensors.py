"""Tensors in an anonymous temporary file, paged by the operating system.

The file never outlives the process: on Linux it has no name, on other POSIX systems its name is
removed immediately, and Windows removes the file when its last handle is closed. All disk space is
reserved in advance, because the system kills a process that writes to a mapped page while the disk
is full.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import sys
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING
from weakref import WeakValueDictionary

import torch

from visualizer.progress import check_cancelled
from visualizer.storage.symlink_safe_folder import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

ALIGNMENT_BYTES = 64
"""Alignment of the tensors in bytes, as in torch."""
ALIGNMENT_MARGIN_BYTES = 2**20
"""Additional bytes that are reserved for alignment."""
ZEROS_BLOCK_BYTES = 2**22
_UNSUPPORTED_ERRORS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Error codes of file systems that cannot reserve space without writing."""

_mapped_at: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()
"""Memory map of each tensor, by the address of its data."""


class TemporaryTensorFile:
    """Allocates tensors in a temporary file, which exists as long as this object or a tensor does.

    Parameters
    ----------
    folder : Path
        Folder of the file; if it does not exist, it is created and only the user can access it.
    size : int
        Number of reserved bytes; a tensor that does not fit is allocated in a separate file.

    Raises
    ------
    OSError
        If the folder cannot be written, the disk or the user's quota is full, or a limit of the
        process is exceeded.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._used = folder, 0
        self._mapped = _map_temporary_file(folder, size + ALIGNMENT_MARGIN_BYTES)

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Allocate a tensor of zeros in the file; raise `OSError` if the disk is full."""
        count = math.prod(shape)
        size = -(-count * dtype.itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if self._used + size <= len(self._mapped):
            mapped, start = self._mapped, self._used
            self._used += size
        else:
            mapped, start = _map_temporary_file(self._folder, size), 0
        made = torch.frombuffer(mapped, dtype=dtype, count=count, offset=start).view(*shape)
        _mapped_at[made.data_ptr()] = mapped
        return made


def is_in_tensor_file(tensor: Tensor) -> bool:
    """Return whether a `TemporaryTensorFile` allocated a tensor; False for views with an offset."""
    return tensor.data_ptr() in _mapped_at


def _map_temporary_file(folder: Path, size: int) -> mmap.mmap:
    make_private_folder(folder)
    with TemporaryFile(dir=folder, buffering=0) as file:
        _reserve_space(file, size)
        return mmap.mmap(file.fileno(), size)  # mmap duplicates the descriptor


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
        check_cancelled()
        left -= file.write(zeros[:left])
