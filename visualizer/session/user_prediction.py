"""Predictions: a hidden stage, the cells that the user marked in it, and the result."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


class PredictionQuestion(StrEnum):
    """The question that the user answers about a hidden stage."""

    LARGEST = "largest"
    ZERO = "zero"


class Prediction(Struct, frozen=True):
    """A stage that is hidden until the user has predicted its cells.

    Parameters
    ----------
    marks : tuple of Cell
        Cells that the user has marked.
    """

    stage: str
    question: PredictionQuestion = PredictionQuestion.LARGEST
    marks: tuple[Cell, ...] = ()
    is_revealed: bool = False


class PredictionVerdict(Struct, frozen=True):
    """The result of a prediction.

    Parameters
    ----------
    right, wrong_cells : tuple of Cell
        The marked cells that are correct, and those that are wrong.
    missed_cells : tuple of Cell
        The largest cells of the rows in which a wrong cell was marked.
    sentence : str
        The explanation, as HTML.
    """

    right: tuple[Cell, ...]
    wrong_cells: tuple[Cell, ...]
    missed_cells: tuple[Cell, ...]
    sentence: str


def toggle_mark(guess: Prediction, cell: Cell) -> Prediction:
    """Toggle a cell's mark; for the question about the largest weight, each row has at most one."""
    if guess.is_revealed or cell.stage != guess.stage:
        return guess
    if cell in guess.marks:
        return replace(guess, marks=tuple(mark for mark in guess.marks if mark != cell))
    kept = guess.marks
    if guess.question is PredictionQuestion.LARGEST:
        kept = tuple(mark for mark in kept if mark.place[:-1] != cell.place[:-1])
    return replace(guess, marks=(*kept, cell))


def clear_marks(guess: Prediction | None) -> Prediction | None:
    """Remove all marks."""
    return replace(guess, marks=(), is_revealed=False) if guess else None
