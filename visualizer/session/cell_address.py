"""The address of one cell of a stage, and the side of a comparison it belongs to."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.head_aggregates import HeadAggregate


class ComparedSide(StrEnum):
    """The side of a comparison that a cell belongs to."""

    PLAIN = "plain"
    A = "a"
    B = "b"
    MEAN = "mean"
    CHANGE = "change"


class Cell(Struct, frozen=True):
    """A cell of a stage, in the text shown.

    Parameters
    ----------
    place : tuple of int
        Index in the stage's named dims, without the head where heads are aggregated.
    fold : HeadAggregate or None
        How heads are aggregated.
    part : ComparedSide
        The side of the comparison.
    layer : int or None
        Where one comes from or goes to another layer, its position on the run's axis; None for the
        layer that is shown, and so of every cell that is pointed at or pinned.
    """

    stage: str
    place: tuple[int, ...]
    fold: HeadAggregate | None = None
    part: ComparedSide = ComparedSide.PLAIN
    layer: int | None = None

    @property
    def head(self) -> int | None:
        """The head; None where the stage has no heads or they are aggregated."""
        return self.place[0] if len(self.place) == 3 else None
