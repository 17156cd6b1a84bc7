"""The address of one cell of a stage, and the side of a comparison it belongs to."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.display_transforms import HeadAggregate


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
        Index in the stage's named dims, without the head if heads are aggregated.
    fold : HeadAggregate or None
        How heads are aggregated.
    part : ComparedSide
        The side of the comparison.
    layer : int or None
        Index of the layer on the run's axis, for navigation between layers; None for the layer
        that is shown, as for every hovered or pinned cell.
    """

    stage: str
    place: tuple[int, ...]
    fold: HeadAggregate | None = None
    part: ComparedSide = ComparedSide.PLAIN
    layer: int | None = None

    @property
    def head(self) -> int | None:
        """The head; None if the stage has no heads or they are aggregated."""
        return self.place[0] if len(self.place) == 3 else None
