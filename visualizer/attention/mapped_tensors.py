"""Tensors in an anonymous temporary file, paged by the operating system."""

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
"""Alignment of the tensors in bytes, as in torch."""
LEEWAY = 2**20
"""Extra bytes reserved for alignment."""

_mapped_at: WeakValueDictionary[int, mmap] = WeakValueDictionary()
"""Memory map of each tensor, by the address of its data."""


class TensorFile:
    """Allocates tensors in a temporary file that exists while this or any of its tensors does.

    Parameters
    ----------
    folder : Path
        Folder of the file.
    size : int
        Reserved bytes; a tensor that does not fit gets a separate file.

    Raises
    ------
    OSError
        As `map_unnamed_file`.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._used = folder, 0
        self._mapped = map_unnamed_file(folder, size + LEEWAY)

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a new tensor of zeros in the file; raise `OSError` if the disk is full."""
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
    """Whether a tensor was allocated by a `TensorFile`; False for its views at an offset."""
    return tensor.data_ptr() in _mapped_at
