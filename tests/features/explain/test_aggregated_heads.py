"""A cell of aggregated heads is explained by the same cell of each head."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.screens import present, resolved
from tests.support.small_runs import a_run
from visualizer.attention.cached_tensor import CachedTensor, Index
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import MaskKind
from visualizer.features.explain.presenter import (
    CELL_PANEL,
    MAX_SHOWN_TERMS,
    explain_aggregate_cell,
    explain_transform,
)
from visualizer.format import format_number
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view import View

RUN = a_run("one two three four five", heads=4, d_in=8, d_out=8)


def float64(stage: str) -> np.ndarray:
    return RUN.trace.read(stage).astype(np.float64)


@pytest.mark.parametrize("stage", ["scores", "weights", "context", "queries"])
def test_the_mean_is_the_sum_of_the_heads_divided_by_their_number(stage: str) -> None:
    readout = explain_aggregate_cell(
        resolved(RUN, View()), Cell(stage, (3, 1), HeadAggregate.MEAN), is_pinned=True
    )
    numbers = float64(stage)[:, 3, 1]
    assert readout.value == format_number(float(numbers.mean()))
    assert [term.value for term in readout.terms] == [
        format_number(float(each)) for each in numbers
    ]
    sources = [term.pieces[0].source for term in readout.terms]
    assert sources == [Cell(stage, (head, 3, 1)) for head in range(4)]
    assert readout.closing.endswith(f"÷ 4 = {readout.value}")
    assert readout.is_pinned


def test_the_largest_names_its_head() -> None:
    readout = explain_aggregate_cell(
        resolved(RUN, View()), Cell("weights", (4, 0), HeadAggregate.MAX), is_pinned=False
    )
    numbers = float64("weights")[:, 4, 0]
    best = int(numbers.argmax())
    assert [term.is_chosen for term in readout.terms] == [head == best for head in range(4)]
    assert readout.plain_text.startswith(
        f"In head {best + 1}, the attention weight from five (query 5) to "
    )
    assert readout.plain_text.endswith(", the largest of all heads.")
    assert readout.value == format_number(float(numbers.max()))


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (
            (0, 0),
            "In head 1, the attention weight from one (query 1) to one (key 1) is 100%, "
            "the same as in 3 other heads.",
        ),
        ((0, 2), "In head 1, the attention weight from one (query 1) to three (key 3) is 0%."),
    ],
)
def test_a_number_that_all_heads_have_is_more_in_none(place: tuple[int, int], told: str) -> None:
    readout = explain_aggregate_cell(
        resolved(RUN, View()), Cell("weights", place, HeadAggregate.MAX), is_pinned=False
    )
    assert readout.plain_text == told


MANY = a_run("one two three", heads=20, d_in=8, d_out=40, mask=MaskKind.NONE)


def test_of_many_heads_those_with_the_largest_numbers_are_shown_beside_the_largest() -> None:
    readout = explain_aggregate_cell(
        resolved(MANY, View()), Cell("scores", (1, 2), HeadAggregate.MAX), is_pinned=False
    )
    numbers = MANY.trace.read("scores")[:, 1, 2]
    named = [int(term.name.removeprefix("head ")) - 1 for term in readout.terms]
    assert numbers.min() < 0
    assert sorted(numbers[named]) == sorted(numbers)[-MAX_SHOWN_TERMS:]
    assert [head for head, term in zip(named, readout.terms, strict=True) if term.is_chosen] == [
        int(numbers.argmax())
    ]
    assert readout.rest == "8 other heads, none larger"


def test_numbers_that_differ_by_rounding_alone_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.array([0.1, 0.1 + 1e-8, 0.05], np.float32)
    assert len({*numbers.tolist()}) == 3

    def read(tensor: CachedTensor, index: Index = ()) -> np.ndarray:
        return numbers if slice(None) in index else numbers.max()

    monkeypatch.setattr(CachedTensor, "read", read)
    readout = explain_aggregate_cell(
        resolved(RUN, View()), Cell("weights", (1, 0), HeadAggregate.MAX), is_pinned=False
    )
    assert readout.plain_text.endswith(", the same as in 1 other head.")


def test_of_many_heads_the_largest_are_shown_and_the_rest_is_summed_up() -> None:
    run = MANY
    readout = explain_aggregate_cell(
        resolved(run, View()), Cell("scores", (1, 2), HeadAggregate.MEAN), is_pinned=False
    )
    numbers = run.trace.read("scores").astype(np.float64)[:, 1, 2]
    assert len(readout.terms) == MAX_SHOWN_TERMS
    shown = np.sort(np.abs(numbers))[::-1][:MAX_SHOWN_TERMS]
    named = [int(term.name.removeprefix("head ")) - 1 for term in readout.terms]
    np.testing.assert_allclose(np.sort(np.abs(numbers[named]))[::-1], shown)
    left = np.delete(numbers, named).sum()
    assert readout.rest == f"8 other heads, none larger in magnitude: {format_number(float(left))}"


def test_what_is_not_there_is_not_explained() -> None:
    for cell in (
        Cell("weights", (9, 0), HeadAggregate.MEAN),
        Cell("output", (0, 0), HeadAggregate.MEAN),
    ):
        shown = present(Document(), View(hovered=cell), RUN, None, False, None)
        assert shown.panel(CELL_PANEL) is None


def test_a_weight_times_the_length_of_its_value() -> None:
    (line,) = explain_transform(
        resolved(RUN, View(lens=WeightTransform.TIMES_VALUE)), Cell("weights", (2, 3, 1))
    )
    length = np.sqrt((float64("values")[2, 1] ** 2).sum())
    weight = float64("weights")[2, 3, 1]
    found = [float(each) for each in re.findall(r"\d+\.\d+", line)]
    np.testing.assert_allclose(found, [weight, length, weight * length], atol=1e-4)


def test_a_weight_without_the_first_token() -> None:
    view, weights = View(lens=WeightTransform.WITHOUT_FIRST), float64("weights")[0, 4]
    (line,) = explain_transform(resolved(RUN, view), Cell("weights", (0, 4, 2)))
    found = [float(each) for each in re.findall(r"\d+\.\d+", line)]
    rest = weights[1:].sum()
    np.testing.assert_allclose(found, [weights[2], rest, weights[2] / rest], atol=1e-4)
    assert explain_transform(resolved(RUN, view), Cell("weights", (0, 4, 0))) == (
        "Hidden: this is the first token.",
    )
    assert explain_transform(resolved(RUN, view), Cell("scores", (0, 4, 0))) == ()
    assert explain_transform(resolved(RUN, View()), Cell("weights", (0, 4, 0))) == ()


def test_without_the_first_token_shares_are_of_the_rest() -> None:
    view, place = View(lens=WeightTransform.WITHOUT_FIRST), (3, 1)
    shown = resolved(RUN, view)
    readout = explain_aggregate_cell(
        shown, Cell("weights", place, HeadAggregate.MEAN), is_pinned=False
    )
    rest = float64("weights")[..., 1:]
    mean = (rest / np.maximum(rest.sum(axis=-1, keepdims=True), 1e-30))[:, 3, 0].mean()
    assert readout.value == format_number(float(mean))
    assert readout.plain_text.endswith(", excluding the first token.")
    first = explain_aggregate_cell(
        shown, Cell("weights", (3, 0), HeadAggregate.MEAN), is_pinned=False
    )
    assert first is not None
    assert first.plain_text == "one is the first token, which is excluded."
