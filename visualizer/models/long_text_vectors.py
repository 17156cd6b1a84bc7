"""The memory of the vectors that are kept of a long text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def vectors_for(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return room for the vectors of a whole text in one layer, which is not filled yet."""
    return torch.empty(tuple(shape), dtype=dtype)
