"""Brushes and strokes: how a mask of queries and keys is made by hand.

Sources of the brushes: Raschka 2024, §3.5.1 (causal); Beltagy et al. 2020, "Longformer", §3.1
(window); Raffel et al. 2020, "T5", §3.2.1 and figure 3 (prefix).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.choices import BooleanMatrix

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[int, int]
"""A query and a key."""


class Brush(StrEnum):
    """A mask to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class PaintLook:
    """Whether the mask is being painted, and the numbers of the brushes that have one.

    Parameters
    ----------
    window : int
        How many tokens a query reads: itself and those just before.
    prefix : int
        How many tokens at the start every query reads.
    padding : int
        How many tokens are text: those after are padding.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4

    def number(self, brush: Brush) -> int:
        """Give the number of a brush; 0 where it has none."""
        return int(getattr(self, brush, 0))


# ------------------------------------------------------------------------------ brushes


def all_allowed(tokens: int) -> np.ndarray:
    """Every query reads every key."""
    return np.ones((tokens, tokens), dtype=bool)  # query key


def causal(tokens: int) -> np.ndarray:
    """A query reads itself and all before."""
    return np.tri(tokens, dtype=bool)  # query key


def window(tokens: int, width: int) -> np.ndarray:
    """A query reads so many tokens: itself and those just before."""
    mask: np.ndarray = causal(tokens) & ~np.tri(tokens, k=-width, dtype=bool)  # query key
    return mask


def prefix(tokens: int, length: int) -> np.ndarray:
    """Every query reads the first tokens; those after are read causally."""
    mask: np.ndarray = causal(tokens) | padding(tokens, length)  # query key
    return mask


def padding(tokens: int, length: int) -> np.ndarray:
    """No query reads a key after the first so many."""
    return np.broadcast_to(np.arange(tokens) < length, (tokens, tokens))  # query key


@lru_cache(maxsize=16)
def started(brush: Brush, tokens: int, number: int) -> BooleanMatrix:
    """Give the mask of a brush for a number of tokens."""
    masks = {Brush.WINDOW: window, Brush.PREFIX: prefix, Brush.PADDING: padding}
    if brush in masks:
        return BooleanMatrix.of(masks[brush](tokens, number))
    return BooleanMatrix.of((all_allowed if brush is Brush.ALL else causal)(tokens))


# ------------------------------------------------------------------------------ strokes


def stroked(
    mask: BooleanMatrix, cells: Iterable[Place], allow: bool, blocks: tuple[int, int] = (1, 1)
) -> BooleanMatrix:
    """Allow or forbid the cells of a stroke; of a pooled picture, the whole block of each."""
    painted = mask.array()  # query key
    for query, key in cells:
        painted[query : query + blocks[0], key : key + blocks[1]] = allow
    return BooleanMatrix.of(painted)


def is_open(mask: BooleanMatrix, cell: Place, blocks: tuple[int, int] = (1, 1)) -> bool:
    """Whether a cell is drawn as allowed: of a block, whether any is."""
    query, key = cell
    return bool(mask.array()[query : query + blocks[0], key : key + blocks[1]].any())


def between(start: Place, end: Place, blocks: tuple[int, int] = (1, 1)) -> list[Place]:
    """Give the drawn cells on the way from one to another, both of them too, without a gap."""
    down, right = ((to - at) // block for at, to, block in zip(start, end, blocks, strict=True))
    steps = max(abs(down), abs(right))
    shares = [step / max(steps, 1) for step in range(steps + 1)]
    places = [(round(down * share), round(right * share)) for share in shares]
    return [(start[0] + row * blocks[0], start[1] + column * blocks[1]) for row, column in places]
