"""How the lines are looked at: which of them, and of which heads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.state.view import Cell

PANE = "Lines"
"""The pane in which they are drawn."""
FOLLOWS = -1
"""In place of a head: the one of the pinned cell."""
MOST_OF_A_QUERY = 32


class Side(StrEnum):
    """At which end of its lines a token stands."""

    QUERY = "query"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Token:
    """A token at one side of the lines."""

    side: Side
    at: int


@dataclass(frozen=True, slots=True)
class LineLook:
    """What of the lines is shown.

    Parameters
    ----------
    threshold : float
        Smaller weights have no line.
    top : int
        How many of the largest of each query and head have a line; 0 for all.
    solo : int or None
        The one head that is drawn, or `FOLLOWS`; None for all heads in one picture.
    by_key : frozenset of Cell
        Cells that were come to by their key: with them light up all lines to that key, where with
        others all lines of their query do.
    """

    threshold: float = 0.0
    top: int = 0
    solo: int | None = None
    by_key: frozenset[Cell] = frozenset()
