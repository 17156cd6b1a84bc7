"""Tensors in a file that has no name; the system reads and writes its pages as memory allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch

from visualizer.storage.unnamed_mapped_file import map_unnamed_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from mmap import mmap
    from pathlib import Path

    from torch import Tensor

ALIGNED = 64
"""Tensors begin at multiples of so many bytes, as torch's own do."""
LEEWAY = 2**20
"""Bytes beyond those of the tensors, for their beginnings."""

_mapped_at: WeakValueDictionary[int, mmap] = WeakValueDictionary()
"""By the address of each tensor, what it lies in."""


class TensorFile:
    """Room for tensors in a file, which is there as long as it or one of the tensors is.

    Parameters
    ----------
    folder : Path
        Where the file is made.
    size : int
        The bytes that are reserved; a tensor beyond them has a file of its own.

    Raises
    ------
    OSError
        As `map_unnamed_file`.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._used = folder, 0
        self._mapped = map_unnamed_file(folder, size + LEEWAY)

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a new tensor in the file, of zeros; `OSError` where there is no room for it."""
        count = math.prod(shape)
        size = -(-count * dtype.itemsize // ALIGNED) * ALIGNED
        if self._used + size <= len(self._mapped):
            mapped, start = self._mapped, self._used
            self._used += size
        else:
            mapped, start = map_unnamed_file(self._folder, size), 0
        made = torch.frombuffer(mapped, dtype=dtype, count=count, offset=start).view(*shape)
        _mapped_at[made.data_ptr()] = mapped
        return made


def is_in_file(tensor: Tensor) -> bool:
    """Whether a tensor is a whole one of a `TensorFile`."""
    return tensor.data_ptr() in _mapped_at
