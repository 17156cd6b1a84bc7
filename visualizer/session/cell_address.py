"""The address of one cell of a stage, and the side of a comparison it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.weight_transforms import HeadAggregate


class ComparedSide(StrEnum):
    """Which number of a cell is meant, where there are several to compare."""

    PLAIN = "plain"
    A = "a"
    B = "b"
    MEAN = "mean"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a stage, of the text that is looked at.

    Parameters
    ----------
    place : tuple of int
        Within the stage's named dims; without the head, where heads are folded into one.
    fold : Fold or None
        How the heads are folded.
    part : Part
        In which of the panels of a comparison.
    """

    stage: str
    place: tuple[int, ...]
    fold: HeadAggregate | None = None
    part: ComparedSide = ComparedSide.PLAIN

    @property
    def head(self) -> int | None:
        """The head, of stages that have heads, where they are not folded."""
        return self.place[0] if len(self.place) == 3 else None
