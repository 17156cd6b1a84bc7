"""The terms of every cell in every stage give the number in the trace."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.explained_values import result_of, room
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
)
from visualizer.explanations.cell_terms import CombinationRule, Explanation
from visualizer.explanations.explain import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.trace import Trace

TEXT = (("Your", "journey", "starts", "with", "one", "step"),)


def explanations(trace: Trace) -> Iterator[Explanation]:
    for stage in trace.stages:
        for cell in product(*(range(size) for size in trace.tensor(stage.name).shape)):
            yield explain(trace, stage.name, cell)


@pytest.mark.slow
@given(cases(most_tokens=4))
@examples(1.5)
def test_the_terms_give_the_value(case: Case) -> None:
    trace = case.trace()
    for explanation in explanations(trace):
        result, value = result_of(explanation), explanation.value
        near = result == value or abs(result - value) <= room(explanation, case.spec.dtype)
        neither = np.isnan(result) and np.isnan(value)
        assert near or neither, f"{explanation}: {result} and not {value}"


@given(cases(most_tokens=4))
def test_every_factor_is_where_it_says(case: Case) -> None:
    trace = case.trace()
    for explanation in explanations(trace):
        for group in explanation.groups:
            for factor in (factor for factor in group.factors if factor.name):
                for term, read in enumerate(factor.read):
                    there = float(trace.read(factor.name, factor.source_index(term)))
                    assert read == there or (np.isnan(read) and np.isnan(there))


def test_a_plain_row_is_told_with_its_numbers() -> None:
    trace = run(TEXT, AttentionSpec(d_in=3, d_out=2, heads=1)).trace
    explanation = explain(trace, "weights", (0, 1, 0))
    (group,) = explanation.groups
    (factor,) = group.factors
    assert explanation.rule is CombinationRule.SHARE
    assert (factor.name, factor.index) == ("masked", (0, 1, None))
    assert factor.source_index(4) == (0, 1, 4)
    assert (factor.form, factor.shift) == ("exp({})", 0.0)
    assert group.products[2:].tolist() == [0, 0, 0, 0]
    scores = trace.read("masked", (0, 1)).astype(np.float64)
    assert explanation.terms.tolist() == pytest.approx(np.exp(scores).tolist())


def test_scores_are_products_of_a_query_and_a_key() -> None:
    trace = run(TEXT, AttentionSpec(d_out=4, heads=2)).trace
    (group,) = explain(trace, "scores", (1, 2, 3)).groups
    assert [(factor.name, factor.index) for factor in group.factors] == [
        ("queries", (1, 2, None)),
        ("keys", (1, 3, None)),
    ]


def test_a_forbidden_score_is_chosen_and_not_computed() -> None:
    trace = run(TEXT, AttentionSpec()).trace
    assert explain(trace, "masked", (0, 1, 0)).chosen == 0
    forbidden = explain(trace, "masked", (0, 1, 2))
    assert (forbidden.rule, forbidden.chosen, result_of(forbidden)) == (
        CombinationRule.CHOICE,
        1,
        -np.inf,
    )


def test_dropout_is_a_choice() -> None:
    trace = run(TEXT, AttentionSpec(dropout=0.5, mask=MaskKind.NONE)).trace
    kept = trace.read("dropped", (0, 0)) > 0
    chosen = [explain(trace, "dropped", (0, 0, key)).chosen for key in range(6)]
    assert chosen == (~kept).astype(int).tolist()
    assert 0 < kept.sum() < 6


def test_where_nothing_could_be_read_nothing_is_dropped() -> None:
    trace = run(TEXT, AttentionSpec(dropout=0.9)).trace
    assert [explain(trace, "dropped", (0, 0, key)).chosen for key in range(1, 6)] == [0] * 5


def test_the_naive_softmax_overflows_in_its_terms_too() -> None:
    naive = AttentionSpec(temperature=0.001, normalisation=NormalisationKind.NAIVE_SOFTMAX)
    trace = run(TEXT, naive).trace
    weights = trace.read("weights")
    assert np.isnan(weights).any()
    cell = tuple(int(place) for place in np.argwhere(np.isnan(weights))[0])
    assert np.isnan(result_of(explain(trace, "weights", cell)))


def test_a_row_that_may_read_nothing_shares_out_nothing() -> None:
    nothing = BooleanMatrix.from_array(np.zeros((6, 6)))
    for normalisation in NormalisationKind:
        spec = AttentionSpec(mask=MaskKind.OWN, own_mask=nothing, normalisation=normalisation)
        divides = normalisation is NormalisationKind.SUM
        spec = replace(
            spec, route=MaskPlacement.AFTER_RENORMALISED if divides else MaskPlacement.BEFORE
        )
        explanation = explain(run(TEXT, spec).trace, "weights", (0, 0, 0))
        assert explanation.is_empty
        assert result_of(explanation) == explanation.value == 0
