"""Predictions: the user marks cells of a hidden stage, and the program checks the marks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.stages import Operation
from visualizer.format import format_count, format_number, shorten
from visualizer.language.tokenizers import visible_token
from visualizer.session.cell_address import Cell
from visualizer.session.user_prediction import Prediction, PredictionQuestion, PredictionVerdict

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import ResolvedView


def prediction_instruction(run: Run, guess: Prediction) -> str:
    """Return the instruction for the user (HTML)."""
    title = run.trace.stage(guess.stage).plural_number_noun
    marks = f" {format_count(len(guess.marks), 'mark')} so far." if guess.marks else ""
    if guess.question is PredictionQuestion.ZERO:
        question = f"Which {title} will be {_forbidden_value_text(run, guess)}?"
        return (
            f"{question} Click each cell, or move to it with the arrow keys and press Enter; "
            f"then press Reveal.{marks}"
        )
    question = f"Choose a row. Which of its {title} will be the largest?"
    return f"{question} Click it, or move to it with the arrow keys and press Enter.{marks}"


def _forbidden_value_text(run: Run, guess: Prediction) -> str:
    is_forbidden = run.trace.stage(guess.stage).operation is Operation.MASK_BEFORE_SOFTMAX
    return "−∞" if is_forbidden else "0"


def judge_prediction(resolved: ResolvedView, guess: Prediction) -> PredictionVerdict:
    """Compare the cells that the user marked with the computed numbers."""
    judge = PredictionJudge(resolved.run, resolved.leading, guess)
    is_right = judge.is_zero if guess.question is PredictionQuestion.ZERO else judge.is_largest
    right = tuple(mark for mark in guess.marks if is_right(mark))
    wrong = tuple(mark for mark in guess.marks if mark not in right)
    if guess.question is PredictionQuestion.ZERO:
        return PredictionVerdict(right, wrong, (), judge.zeros_verdict(wrong))
    missed = tuple(judge.find_largest_in_row(mark) for mark in wrong)
    return PredictionVerdict(right, wrong, missed, judge.largest_verdict(right, missed))


class PredictionJudge(Struct, frozen=True, eq=False):
    """Checks a prediction and writes the verdict."""

    run: Run
    leading: LeadingIndex
    guess: Prediction

    def read_value(self, cell: Cell) -> float:
        return float(self.run.trace.read(cell.stage, (*self.leading, *cell.place)))

    def is_zero(self, cell: Cell) -> bool:
        return self.read_value(cell) in {0.0, -np.inf}

    def find_largest_in_row(self, cell: Cell) -> Cell:
        row = self.run.trace.read(cell.stage, (*self.leading, *cell.place[:-1]))
        largest = int(np.nan_to_num(row, nan=-np.inf).argmax())
        return Cell(cell.stage, (*cell.place[:-1], largest))

    def is_largest(self, cell: Cell) -> bool:
        return self.read_value(cell) == self.read_value(self.find_largest_in_row(cell))

    def bold_token(self, at: int, kind: str = "query") -> str:
        words = self.run.axis_tokens(self.leading, kind)
        return f"<b>{escape(shorten(visible_token(words[at])))}</b>"

    def describe_cell(self, cell: Cell) -> str:
        """Name a cell within its row, followed by its number."""
        is_key = self.run.trace.stage(cell.stage).dims[-1] == "key"
        at = cell.place[-1]
        named = f"{self.bold_token(at, 'key')} (key {at + 1})" if is_key else f"column {at + 1}"
        return f"{named}, {format_number(self.read_value(cell))}"

    def row_phrase(self, cell: Cell) -> str:
        return f"in the row of {self.bold_token(cell.place[-2])}"

    def largest_verdict(self, right: tuple[Cell, ...], missed: tuple[Cell, ...]) -> str:
        marks = self.guess.marks
        if not marks:
            return "No cell was marked. Compare the cells of a row and mark the largest one."
        if len(marks) > 1:
            if not missed:
                rows = "both rows" if len(marks) == 2 else f"all {len(marks)} rows"
                return f"Yes: you marked the largest cell in {rows}."
            return f"{len(right)} of {len(marks)} rows are correct; rings mark the largest cells."
        (mark,) = marks
        if right:
            return f"Yes: {self.row_phrase(mark)}, the largest is {self.describe_cell(mark)}."
        (best,) = missed
        said = f"Not quite: {self.row_phrase(mark)}, the largest is {self.describe_cell(best)}"
        return f"{said}; you marked {self.describe_cell(mark)}."

    def zeros_verdict(self, wrong: tuple[Cell, ...]) -> str:
        marks = self.guess.marks
        if not marks:
            return f"No cell was marked. {self.zeros_sentence()}"
        right = len(marks) - len(wrong)
        if not wrong:
            yes = "the cell you marked is"
            if right > 1:
                yes = f"{'both' if right == 2 else f'all {right}'} cells you marked are"
            return (
                f"Yes: {yes} {_forbidden_value_text(self.run, self.guess)}. {self.zeros_sentence()}"
            )
        expected = _forbidden_value_text(self.run, self.guess)
        first = f"{self.row_phrase(wrong[0])}, {self.describe_cell(wrong[0])}, is not {expected}"
        return f"{right} of {len(marks)} marked cells are correct; {first}. {self.zeros_sentence()}"

    def zeros_sentence(self) -> str:
        """State how many weights are 0, or how many scores are −∞, in the marked head."""
        marks, stage = self.guess.marks, self.guess.stage
        has_heads = "head" in self.run.trace.stage(stage).dims
        head = marks[0].place[:-2] if marks else (0,) * has_heads
        numbers = self.run.trace.read(stage, (*self.leading, *head))
        zeros = int(((numbers == 0) | np.isneginf(numbers)).sum())
        where = f"head {head[0] + 1}" if head and self.run.trace.spec.heads > 1 else "all"
        are = "is" if zeros == 1 else "are"
        cells = f"Of {format_count(numbers.size, 'cell')} in {where}"
        return f"{cells}, {zeros:,} {are} {_forbidden_value_text(self.run, self.guess)}."
