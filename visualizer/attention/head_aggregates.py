"""Aggregates of the heads of a stage; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class HeadAggregate(StrEnum):
    """How the heads of a stage are aggregated to one."""

    MEAN = "mean"
    MAX = "max"


def aggregate_heads(tensor: Tensor, by: HeadAggregate) -> Tensor:
    """Aggregate [..., head, row, column] to [..., row, column]."""
    return tensor.mean(-3) if by is HeadAggregate.MEAN else tensor.amax(-3)
