"""Predictions are judged by the numbers, including ties."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.small_runs import a_run, places
from visualizer.attention.spec import MaskKind
from visualizer.explanations.prediction_judge import judge_prediction, prediction_instruction
from visualizer.session.cell_address import Cell
from visualizer.session.user_prediction import Prediction, PredictionQuestion, toggle_mark
from visualizer.session.view import View


@examples(0.4)
@given(cases(), st.sampled_from(PredictionQuestion), st.data())
def test_marks_are_right_where_the_numbers_say_so(
    case: Case, question: PredictionQuestion, data: st.DataObject
) -> None:
    run = case.run()
    text = data.draw(st.integers(0, len(run.texts) - 1))
    stage = data.draw(st.sampled_from(run.trace.names))
    some = st.lists(st.sampled_from(list(places(run, stage))), max_size=5)
    guess = Prediction(stage, question)
    for place in data.draw(some):
        guess = toggle_mark(guess, Cell(stage, place))
    numbers = run.trace.read(stage, (text,) if run.trace.axes else ())
    verdict = judge_prediction(resolved(run, View(text=text)), guess)
    for mark in guess.marks:
        value, row = numbers[mark.place], numbers[mark.place[:-1]]
        if question is PredictionQuestion.ZERO:
            is_right = value in {0, -np.inf}
        else:
            is_right = bool(value == np.where(np.isnan(row), -np.inf, row).max())
        assert (mark in verdict.right) == is_right
        assert (mark in verdict.wrong_cells) != is_right
    assert verdict.sentence.endswith(".")
    assert prediction_instruction(run, guess)


def test_of_the_largest_each_row_has_one_mark() -> None:
    guess = Prediction("weights")
    for place in ((0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 1, 0), (0, 2, 0)):
        guess = toggle_mark(guess, Cell("weights", place))
    assert [mark.place for mark in guess.marks] == [(0, 1, 1), (1, 1, 0)]


def test_of_the_zeros_there_are_as_many_as_wanted() -> None:
    guess = Prediction("weights", PredictionQuestion.ZERO)
    for place in ((0, 1, 0), (0, 1, 1), (0, 1, 0)):
        guess = toggle_mark(guess, Cell("weights", place))
    assert [mark.place for mark in guess.marks] == [(0, 1, 1)]


def test_marks_elsewhere_or_too_late_are_none() -> None:
    cell = Cell("weights", (0, 0, 0))
    assert toggle_mark(Prediction("scores"), cell).marks == ()
    assert toggle_mark(Prediction("weights", is_revealed=True), cell).marks == ()


def test_what_is_tied_is_right() -> None:
    run = a_run("a a a", mask=MaskKind.NONE, heads=1)
    for key in range(3):
        guess = Prediction("weights", marks=(Cell("weights", (0, 1, key)),))
        assert judge_prediction(resolved(run, View()), guess).wrong_cells == ()


def test_right_and_wrong_are_said_kindly() -> None:
    run = a_run()
    said = {
        marks: judge_prediction(
            resolved(run, View()),
            Prediction("weights", marks=tuple(Cell("weights", at) for at in marks)),
        )
        for marks in itertools.chain(
            [((0, 1, 1),), ((0, 1, 0),), ()], [((0, 1, 1), (0, 3, 1)), ((0, 1, 0), (0, 3, 1))]
        )
    }
    assert [verdict.sentence for verdict in said.values()] == [
        "Yes: in the row of <b>journey</b>, the largest is <b>journey</b> (key 2), 0.5224.",
        "Not quite: in the row of <b>journey</b>, the largest is <b>journey</b> (key 2), "
        "0.5224; you marked <b>Your</b> (key 1), 0.4776.",
        "No cell was marked. Compare the cells of a row and mark the largest one.",
        "Yes: you marked the largest cell in both rows.",
        "1 of 2 rows are correct; rings mark the largest cells.",
    ]


def test_zeros_are_counted_in_the_head_that_was_marked() -> None:
    run = a_run()
    cells = tuple(Cell("weights", (1, row, 5)) for row in (0, 1, 5))
    said = judge_prediction(
        resolved(run, View()), Prediction("weights", PredictionQuestion.ZERO, cells)
    ).sentence
    assert said == (
        "2 of 3 marked cells are correct; in the row of <b>step</b>, <b>step</b> (key 6), 0.1702, "
        "is not 0. "
        "Of 36 cells in head 2, 15 are 0."
    )
    masked = Prediction("masked", PredictionQuestion.ZERO, (Cell("masked", (0, 0, 1)),))
    assert "15 are −∞" in judge_prediction(resolved(run, View()), masked).sentence
    assert prediction_instruction(run, Prediction("masked", PredictionQuestion.ZERO)).startswith(
        "Which masked scores will be −∞?"
    )
