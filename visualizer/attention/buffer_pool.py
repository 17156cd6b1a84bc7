"""Memory of large tensors that is used again: fresh memory costs more than what is written to it.

The system hands out fresh memory page by page, each at its first write. For a tensor of 50 MB that
takes longer than the softmax which fills it.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

LEAST_BYTES = 2**22
"""Of a tensor that is worth it."""
MOST_BYTES = 2**28
"""Of memory that waits to be used again."""
ROOMIEST = 1.25
"""How many times larger than a tensor its memory may be: a text grows and shrinks word by word."""


class BufferPool:
    """Lends memory to tensors and takes it back when the last that reads it has gone.

    A tensor and all views of it, those of numpy too, hold on to the memory together: as long as
    one of them is there, nothing else is written to it. Any thread may drop the last one.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Tensor] = {}

    @property
    def bytes(self) -> int:
        """How much memory waits to be used again."""
        return sum(map(len, [*self._waiting.values()]))

    def empty(self, sizes: tuple[int, ...], like: Tensor) -> Tensor | None:
        """Give a tensor of undefined numbers, of the type of another one.

        Nothing is given for a small tensor, nor beside one that is not on the CPU.
        """
        count = math.prod(sizes) * like.element_size()
        if count < LEAST_BYTES or like.device.type != "cpu":
            return None
        block = self._fitting(count)
        # All that is made of the tensor, whoever has it, holds this array, and that the memory.
        lent = block.numpy()[:count]
        weakref.finalize(lent, self._take_back, block).atexit = False
        return torch.from_numpy(lent).view(like.dtype).view(sizes)

    def release(self) -> None:
        """Give the memory that waits back to the system."""
        self._waiting.clear()

    def _fitting(self, count: int) -> Tensor:
        waiting = [*self._waiting.values()]
        fitting = [block for block in waiting if count <= len(block) <= ROOMIEST * count]
        smallest = min(fitting, key=len, default=None)
        # Another thread may have been faster.
        block = None if smallest is None else self._waiting.pop(smallest.data_ptr(), None)
        return torch.empty(count, dtype=torch.uint8) if block is None else block

    def _take_back(self, block: Tensor) -> None:
        self._waiting[block.data_ptr()] = block
        for oldest in [*self._waiting]:
            if self.bytes <= MOST_BYTES:
                break
            self._waiting.pop(oldest, None)
