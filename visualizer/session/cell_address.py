"""The address of a cell: its stage, its indices and its side of a comparison."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.display_transforms import HeadAggregate


class ComparisonSide(StrEnum):
    """The side of a comparison that a cell belongs to."""

    PLAIN = "plain"
    A = "a"
    B = "b"
    MEAN = "mean"
    CHANGE = "change"


class Cell(Struct, frozen=True):
    """A cell of a stage, in the text that is shown.

    Parameters
    ----------
    place : tuple of int
        Indices in the stage's named dimensions, without the head if heads are aggregated.
    fold : HeadAggregate or None
        How the heads are aggregated; None if they are not.
    part : ComparisonSide
        The side of the comparison.
    layer : int or None
        Index of the layer on the run's axis, for navigation between layers; None for the layer that
        is shown, as for every hovered or pinned cell.
    """

    stage: str
    place: tuple[int, ...]
    fold: HeadAggregate | None = None
    part: ComparisonSide = ComparisonSide.PLAIN
    layer: int | None = None

    @property
    def head(self) -> int | None:
        """The index of the head, or None if the stage has no heads or if they are aggregated."""
        return self.place[0] if len(self.place) == 3 else None


class ParameterCell(Struct, frozen=True):
    """A weight of a layer.

    Parameters
    ----------
    stage : str
        The stage that the layer computes.
    head : int or None
        The head that the weight belongs to; None if the stage has no heads.
    row, column : int
        The column of the layer's input and the column of its result that the weight connects.
    """

    stage: str
    head: int | None
    row: int
    column: int
