"""What is looked at: stages, text, cells, colours. Not undone.

A prediction: a stage is covered, cells are marked, and what is true is shown kindly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell


class PredictionQuestion(StrEnum):
    """What is to be predicted of a covered stage."""

    LARGEST = "largest"
    ZERO = "zero"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A stage that is covered until its cells have been predicted.

    Parameters
    ----------
    marks : tuple of Cell
        The cells that the viewer has marked.
    """

    stage: str
    question: PredictionQuestion = PredictionQuestion.LARGEST
    marks: tuple[Cell, ...] = ()
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class PredictionVerdict:
    """What became of a prediction.

    Parameters
    ----------
    right, wrong : tuple of Cell
        The marks.
    missed : tuple of Cell
        The largest cells of rows whose mark was wrong.
    sentence : str
        In plain words (HTML).
    """

    right: tuple[Cell, ...]
    wrong: tuple[Cell, ...]
    missed: tuple[Cell, ...]
    sentence: str


def marked(guess: Prediction, cell: Cell) -> Prediction:
    """Mark a cell, or take its mark away; of the largest there is one in each row."""
    if guess.is_revealed or cell.stage != guess.stage:
        return guess
    if cell in guess.marks:
        return replace(guess, marks=tuple(mark for mark in guess.marks if mark != cell))
    kept = guess.marks
    if guess.question is PredictionQuestion.LARGEST:
        kept = tuple(mark for mark in kept if mark.place[:-1] != cell.place[:-1])
    return replace(guess, marks=(*kept, cell))


def begun_anew(guess: Prediction | None) -> Prediction | None:
    """Take all marks away."""
    return replace(guess, marks=(), is_revealed=False) if guess else None
