"""What can be made of a stage to be looked at beside it; no torch.

Works with the methods of the tensors it is given, so it needs no torch and runs where they are.

Sources: Kobayashi et al. 2020, "Attention is Not Only a Weight" (weights times the length of what
they are given to, which they take behind the output projection, where heads are no longer apart);
Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks" (why the first token
is worth hiding).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class HeadAggregate(StrEnum):
    """How the heads of a stage become one."""

    MEAN = "mean"
    MAX = "max"


class WeightTransform(StrEnum):
    """What weights are looked at as."""

    PLAIN = "plain"
    WITHOUT_FIRST = "without-first"
    TIMES_VALUE = "times-value"


def fold(tensor: Tensor, by: HeadAggregate) -> Tensor:
    """Fold [..., head, row, column] into [..., row, column]."""
    return tensor.mean(-3) if by is HeadAggregate.MEAN else tensor.amax(-3)


def without_first(weights: Tensor) -> Tensor:
    """Leave out the first key and share each row's rest out anew, [..., head, query, key].

    A row that reads nothing else stays at zeros.
    """
    left = weights.clone()
    left[..., 0] = 0
    sums = left.sum(-1, keepdim=True)
    left /= sums.masked_fill(sums == 0, 1)
    return left


def times_value(weights: Tensor, values: Tensor) -> Tensor:
    """Give each weight times the length of the value that it is given to, [..., query, key]."""
    lengths: Tensor = values.norm(dim=-1)  # head key
    return weights * lengths.unsqueeze(-2)
