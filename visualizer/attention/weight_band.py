"""Bands: the weights of consecutive queries; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from torch import Tensor


class WeightBand(Struct, frozen=True, eq=False):
    """The weights of consecutive queries of some heads, [head, query, key].

    Parameters
    ----------
    queries, keys : range
        Positions of the queries and keys; the weights of all other keys are 0.
    has_others : bool
        Whether there are other keys.
    """

    weights: Tensor
    queries: range
    keys: range
    has_others: bool = False
