"""A pool that reuses the memory of large tensors.

The operating system maps new memory page by page, at the first write to each page. For a tensor of
50 MB, this takes longer than the softmax that fills it.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

MIN_POOLED_BYTES = 2**22
"""Minimum size, in bytes, of a tensor that is pooled."""
MAX_FREE_BYTES = 2**28
"""Maximum total size, in bytes, of the free blocks that are kept."""
MAX_BLOCK_RATIO = 1.25
"""Maximum ratio of block size to tensor size; sizes change little while the user types."""


class BufferPool:
    """Lends memory to tensors and takes it back when the last reference is gone.

    A tensor and all its views, including NumPy views, share ownership of the memory. The memory is
    reused when none of them exists any more. The last reference may be dropped on any thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Tensor] = {}
        self._is_resting = True

    @property
    def free_bytes(self) -> int:
        """Total size in bytes of all free blocks."""
        return sum(map(len, [*self._waiting.values()]))

    def allocate_tensor(self, sizes: tuple[int, ...], like: Tensor) -> Tensor | None:
        """Return an uninitialized tensor with the dtype of ``like``.

        Returns None for small tensors, or if ``like`` is not on the CPU.
        """
        count = math.prod(sizes) * like.element_size()
        if count < MIN_POOLED_BYTES or like.device.type != "cpu":
            return None
        self._is_resting = False
        block = self._take_block(count)
        # Every view of the tensor references this array, which references the block.
        lent = block.numpy()[:count]
        weakref.finalize(lent, self._return_block, block).atexit = False
        return torch.from_numpy(lent).view(like.dtype).view(sizes)

    def release_free_blocks(self) -> None:
        """Return free blocks to the system, now and until memory is lent again."""
        self._is_resting = True
        self._waiting.clear()

    def _take_block(self, count: int) -> Tensor:
        waiting = [*self._waiting.values()]
        fitting = [block for block in waiting if count <= len(block) <= MAX_BLOCK_RATIO * count]
        smallest = min(fitting, key=len, default=None)
        # Another thread may have taken the block in the meantime.
        block = None if smallest is None else self._waiting.pop(smallest.data_ptr(), None)
        return torch.empty(count, dtype=torch.uint8) if block is None else block

    def _return_block(self, block: Tensor) -> None:
        self._waiting[block.data_ptr()] = block
        if self._is_resting:  # checked after storing it: `release` may run in between
            self._waiting.clear()
        for oldest in [*self._waiting]:
            if self.free_bytes <= MAX_FREE_BYTES:
                break
            self._waiting.pop(oldest, None)
