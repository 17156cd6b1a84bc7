"""Transforms of attention weights and aggregates of heads, for display; imports no torch.

Because this module uses only methods of the given tensors, it works on any device without importing
torch.

Sources: Kobayashi et al. 2020, "Attention is Not Only a Weight" (weights times the norms of the
weighted vectors; the paper measures these norms after the output projection, where heads are not
separate); Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks" (the reason
to hide the first token).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class WeightTransform(StrEnum):
    """How weights are transformed for display."""

    PLAIN = "plain"
    WITHOUT_FIRST = "without-first"
    TIMES_VALUE = "times-value"


def drop_first_key(weights: Tensor) -> Tensor:
    """Set the first key's weights to 0 and renormalize each row, [..., head, query, key].

    A row without other nonzero weights becomes 0.
    """
    left = weights.clone()
    left[..., 0] = 0
    sums = left.sum(-1, keepdim=True)
    left /= sums.masked_fill(sums == 0, 1)
    return left


def multiply_by_value_norms(weights: Tensor, lengths: Tensor) -> Tensor:
    """Multiply each weight by the norm [..., key] of its key's value vector."""
    return weights * lengths.unsqueeze(-2)


class HeadAggregate(StrEnum):
    """How the heads of a stage are aggregated into one."""

    MEAN = "mean"
    MAX = "max"


def aggregate_heads(tensor: Tensor, by: HeadAggregate) -> Tensor:
    """Aggregate [..., head, row, column] to [..., row, column]."""
    return tensor.mean(-3) if by is HeadAggregate.MEAN else tensor.amax(-3)
