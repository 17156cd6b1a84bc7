"""Options of the line view."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


PANE = "Lines"
"""The title of the pane that draws the lines."""
FOLLOWS = -1
"""Value of `solo` that selects the head of the pinned cell."""
MAX_LINES_PER_QUERY = 32


class LineSide(StrEnum):
    """The side of the line view on which a token appears."""

    QUERY = "query"
    KEY = "key"


class LineToken(Struct, frozen=True):
    """A token on one side of the line view."""

    side: LineSide
    at: int


class LineOptions(Struct, frozen=True):
    """Options of the line view.

    Parameters
    ----------
    threshold : float
        Weights below it have no line.
    top : int
        Number of largest weights drawn per query and head; 0 for all.
    solo : int or None
        The one head drawn, or `FOLLOWS`; None for all heads in one picture.
    by_key : frozenset of Cell
        Cells reached through their key: all lines to that key are highlighted, otherwise those of
        their query.
    """

    threshold: float = 0.0
    top: int = 0
    solo: int | None = None
    by_key: frozenset[Cell] = frozenset()
