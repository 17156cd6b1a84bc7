"""What is said of a cell is there for every cell, and true."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

from tests.attention.strategies import Case, cases
from tests.state.making import a_run, cells, places
from visualizer.attention.masks import allowed
from visualizer.attention.spec import (
    Mask,
    Normalisation,
    Position,
    Projection,
    Route,
)
from visualizer.language.tokenizers import visible
from visualizer.state.readout import SHOWN_TERMS, Readout, present_readout
from visualizer.state.view import Cell
from visualizer.state.words import number, share

if TYPE_CHECKING:
    from visualizer.attention.run import Run

ROWS = {"unmasked", "zeroed", "weights"}


def told(run: Run, cell: Cell, text: int = 0) -> Readout:
    readout = present_readout(run, cell, text, False)
    assert readout
    return readout


def value(run: Run, cell: Cell, text: int) -> float:
    index = (text, *cell.place) if run.trace.batch else cell.place
    return float(run.trace.read(cell.stage, index))


def may_read(run: Run, text: int, place: tuple[int, ...]) -> bool:
    matrix = allowed(run.trace.spec, run.trace.tokens)
    return bool((matrix[text, 0] if matrix.ndim > 2 else matrix)[place[-2:]])


# ------------------------------------------------------------------------------- every cell


@settings(max_examples=40)
@given(cases(most_tokens=4))
def test_every_cell_can_be_told(case: Case) -> None:
    run = case.run()
    for text in range(len(run.texts)):
        for cell in cells(run):
            readout = told(run, cell, text)
            assert readout.value == number(value(run, cell, text))
            assert readout.sentence.endswith(".")
            assert readout.heading.startswith(run.trace.stage(cell.stage).title)
            assert readout.closing.endswith(f"= {readout.value}")
            assert 1 <= len(readout.terms) <= SHOWN_TERMS
            assert readout.formula
            assert all(term.written and term.value for term in readout.terms)


@settings(max_examples=40)
@given(cases(most_tokens=4))
def test_the_words_of_a_weight_are_true(case: Case) -> None:
    run = case.run()
    spec = run.trace.spec
    for text in range(len(run.texts)):
        words = [visible(token) for token in run.texts[text]]
        for stage in sorted(ROWS & set(run.trace.names)):
            for place in places(run, stage):
                cell = Cell(stage, place)
                said, weight = told(run, cell, text).plain, value(run, cell, text)
                query, key = (f"{words[at]} ({kind} {at + 1})" for at, kind in pair(place))
                forbidden = spec.is_masked and not may_read(run, text, place)
                if forbidden and stage != "unmasked":
                    assert said == f"{query} may not read {key}: the mask forbids it."
                elif not np.isfinite(weight):
                    assert said == f"{query} has no weights: its row is not a number."
                elif 0 <= weight <= 1:
                    assert said == f"{query} reads {share(weight)} from {key}."
                else:
                    assert said == f"{query} gives {key} the weight {number(weight)}."


def pair(place: tuple[int, ...]) -> list[tuple[int, str]]:
    return [(place[1], "query"), (place[2], "key")]


# ----------------------------------------------------------------------------- sentences


def test_a_weight_is_said_with_the_words_it_joins() -> None:
    readout = told(a_run(), Cell("weights", (0, 1, 0)))
    assert readout.plain == "journey (query 2) reads 48 % from Your (key 1)."
    assert readout.sentence == ("<b>journey</b> (query 2) reads 48 % from <b>Your</b> (key 1).")
    assert readout.heading == "Weights · head 1, query 2, key 1"
    assert readout.value == "0.4776"
    assert "exp(score" in readout.formula
    assert [term.name for term in readout.terms] == [
        "Your",
        "journey",
        "starts",
        "with",
        "one",
        "step",
    ]
    assert [term.chosen for term in readout.terms] == [True] + 5 * [False]
    assert re.fullmatch(r"[\d.]+ ÷ [\d.]+ = 0\.4776", readout.closing)


def test_a_forbidden_cell_is_said_to_be_one() -> None:
    run = a_run(dropout=0.5)
    assert told(run, Cell("weights", (0, 0, 1))).plain == (
        "Your (query 1) may not read journey (key 2): the mask forbids it."
    )
    assert told(run, Cell("masked", (0, 0, 1))).plain == (
        "Your (query 1) may not read journey (key 2): its score becomes −∞, "
        "so its weight will be 0."
    )
    assert told(run, Cell("masked", (0, 1, 0))).plain.endswith("its score stays.")
    assert told(run, Cell("masked", (0, 0, 1))).value == "−∞"


def test_what_dropout_does_is_said() -> None:
    run = a_run(dropout=0.2, dropout_seed=1)
    dropped, weights = (run.trace.read(name) for name in ("dropped", "weights"))
    for place in places(run, "dropped"):
        said, before = told(run, Cell("dropped", place)).plain, weights[place]
        if before == 0:
            assert said.startswith("There was nothing to drop")
        elif dropped[place] == 0:
            assert said.startswith("Dropout takes away what ")
            assert said.endswith(f": {number(before)} becomes 0.")
        else:
            assert said.endswith("is kept and made 1.25 times as large.")
    assert (dropped[weights > 0] == 0).any()


def test_a_score_is_the_products_of_a_query_and_a_key() -> None:
    run = a_run(d_out=4)
    readout = told(run, Cell("scores", (1, 2, 0)))
    assert readout.plain.startswith("The query of starts (query 3) meets the key of Your (key 1): ")
    queries, keys = (run.trace.read(name, (1,)) for name in ("queries", "keys"))
    assert [term.written for term in readout.terms] == [
        f"{number(a)} × {number(b)}" for a, b in zip(queries[2], keys[0], strict=True)
    ]
    assert [term.name for term in readout.terms] == ["column 1", "column 2"]


def test_a_context_vector_mixes_the_values_of_what_it_reads() -> None:
    readout = told(a_run(), Cell("context", (1, 1, 0)))
    assert readout.plain == (
        "Column 1 of the context vector of journey (query 2) in head 2: "
        "the values of all it reads, each times its weight."
    )
    assert [term.name for term in readout.terms][:2] == ["Your", "journey"]
    assert readout.closing == f"sum = {readout.value}"


def test_bias_and_columns_are_named() -> None:
    run = a_run(d_in=3, bias=True)
    queries, output = (told(run, Cell(*at)) for at in (("queries", (0, 0, 0)), ("output", (0, 0))))
    assert [term.name for term in queries.terms] == ["column 1", "column 2", "column 3", "bias"]
    assert [term.name for term in output.terms] == ["column 1", "column 2", "bias"]


@pytest.mark.parametrize("position", [Position.SINUSOIDAL, Position.LEARNED])
def test_a_position_is_named(position: Position) -> None:
    readout = told(a_run(position=position), Cell("position", (1, 0)))
    assert [term.name for term in readout.terms] == ["position"]
    assert readout.plain.startswith("Column 1 of the position of journey (place 2)")


def test_an_average_counts_the_allowed_keys() -> None:
    run = a_run(normalisation=Normalisation.UNIFORM, projection=Projection.NONE, heads=1)
    readout = told(run, Cell("weights", (0, 3, 1)))
    assert readout.value == "0.2500"
    assert readout.formula == "1 ÷ number of allowed keys"


def test_a_row_that_overflowed_is_said_to_be_no_number() -> None:
    run = a_run(normalisation=Normalisation.NAIVE_SOFTMAX, temperature=1e-4, mask=Mask.NONE)
    place = next(p for p in places(run, "weights") if np.isnan(run.trace.read("weights", p)))
    readout = told(run, Cell("weights", place))
    assert "has no weights: its row is not a number." in readout.plain
    assert readout.value == "NaN"


def test_a_row_that_reads_nothing_has_the_weight_0() -> None:
    run = a_run("a b", "c", mask=Mask.NONE, route=Route.AFTER_RENORMALISED)
    readout = told(run, Cell("weights", (0, 0, 1)), 1)
    assert readout.value == "0.0000"
    assert "may not read" in readout.plain


# -------------------------------------------------------------------------- odd and many words


def test_words_that_look_like_tags_are_words() -> None:
    readout = told(a_run("< b > & c"), Cell("weights", (0, 3, 0)))
    assert "<b>&amp;</b> (query 4)" in readout.sentence
    assert readout.plain.startswith("& (query 4) reads ")
    assert readout.plain.endswith(" from < (key 1).")


def test_of_many_terms_the_largest_are_shown_and_the_rest_is_named() -> None:
    tokens = 40
    run = a_run(" ".join(f"w{number_}" for number_ in range(tokens)), mask=Mask.NONE, d_in=8)
    readout = told(run, Cell("weights", (0, 5, 7)))
    assert len(readout.terms) <= SHOWN_TERMS
    assert [term.name for term in readout.terms if term.chosen] == ["w7"]
    left = re.fullmatch(r"(\d+) smaller terms: ([\d.]+)", readout.rest)
    assert left
    assert int(left[1]) + len(readout.terms) == tokens
    total = sum(float(term.value) for term in readout.terms) + float(left[2])
    divided = re.fullmatch(r"[\d.]+ ÷ ([\d.]+) = [\d.]+", readout.closing)
    assert divided
    assert total == pytest.approx(float(divided[1]), abs=1e-3)
    smallest = sorted(float(term.value) for term in readout.terms)[1]
    assert float(left[2]) / int(left[1]) <= smallest + 1e-4


def test_few_terms_are_all_shown() -> None:
    run = a_run(" ".join(SHOWN_TERMS * ["a"]), mask=Mask.NONE)
    readout = told(run, Cell("context", (0, 0, 0)))
    assert len(readout.terms) == SHOWN_TERMS
    assert readout.rest == ""


@pytest.mark.parametrize(
    "cell",
    [
        Cell("dropped", (0, 0, 0)),
        Cell("weights", (0, 6, 0)),
        Cell("weights", (0, 0)),
        Cell("x", ()),
    ],
)
def test_a_cell_that_is_not_there_is_not_told(cell: Cell) -> None:
    assert present_readout(a_run(), cell, 0, False) is None
