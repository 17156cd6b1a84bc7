"""A caption contains everything that is needed to reproduce a figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Batch, Case, cases, specs
from tests.support.examples import examples
from tests.support.small_runs import a_run
from visualizer.attention.run import run
from visualizer.attention.spec import (
    BooleanMatrix,
    DropoutMode,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.session.computation_caption import describe_value_origin


def said(*texts: str, **fields: Any) -> list[str]:
    return describe_value_origin(a_run(*texts, **fields)).split(" · ")


def test_the_book_settings_have_a_short_caption() -> None:
    assert said() == [
        "Multi-head attention",
        "untrained: random weights, seed 123",
        "6 tokens",
        "embedding 3, 2 heads of 1",
        "output 2",
        "causal mask",
        "float32, CPU",
    ]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"mask": MaskKind.NONE}, "no mask"),
        ({"mask": MaskKind.WINDOW, "window": 2}, "window of 2"),
        (
            {"route": MaskPlacement.AFTER_RENORMALISED},
            "causal mask after normalizing, renormalized",
        ),
        ({"dropout": 0.25, "dropout_seed": 4}, "dropout 0.25 (seed 4)"),
        ({"projection": Projection.UNIFORM}, "weights from [0, 1)"),
        ({"position": PositionKind.SINUSOIDAL}, "sinusoidal positions"),
        ({"normalisation": NormalisationKind.NAIVE_SOFTMAX}, "normalization: naive"),
        ({"scale": ScaleKind.NONE}, "not scaled"),
        ({"temperature": 0.5}, "temperature 0.5"),
        ({"temperature": 0.1234567890123}, "temperature 0.1234567890123"),
        ({"bias": True}, "with bias"),
        ({"output_projection": False}, "no output projection"),
        ({"projection": Projection.NONE, "heads": 1}, "output projection"),
        ({"normalisation": NormalisationKind.UNIFORM}, "linear weights"),
        ({"arrangement": HeadArrangement.STACKED}, "stacked heads"),
        ({"d_out": 6}, "output 6"),
        (
            {"dropout": 0.5, "own_kept": BooleanMatrix.from_array(np.eye(6))},
            "dropout 0.5 (custom cells)",
        ),
        ({"mask": MaskKind.OWN, "own_mask": BooleanMatrix.from_array(np.eye(6))}, "custom mask"),
        ({"own_input": NumberMatrix.from_array(np.ones((6, 3)))}, "custom vectors"),
        (
            {"own_weights": (("W_key", NumberMatrix.from_array(np.ones((3, 2)))),)},
            "custom weights (W_key)",
        ),
        ({"seed": 7}, "untrained: random weights, seed 7"),
        ({"heads": 1}, "embedding 3, 1 head of 2"),
    ],
)
def test_unusual_settings_are_in_the_caption(fields: dict[str, Any], part: str) -> None:
    assert part in said(**fields)


def test_settings_without_effect_are_not_in_the_caption() -> None:
    parts = said(dropout=0.5, mode=DropoutMode.EVAL, normalisation=NormalisationKind.UNIFORM)
    assert not [part for part in parts if "dropout" in part or "÷" in part]


def test_the_number_of_texts_is_in_the_caption() -> None:
    assert said("a b", "c d")[2] == "2 texts of 2 tokens"
    assert said("a b", "c", "d")[2] == "3 texts of up to 2 tokens"


CHANGING = (
    *("d_in", "d_out", "heads", "projection", "bias", "arrangement", "output_projection"),
    *("position", "scale", "temperature", "normalisation", "mask", "window", "route", "dropout"),
    *("dropout_seed", "mode", "seed", "dtype"),
)


@pytest.mark.slow
@pytest.mark.parametrize("field", CHANGING)
@examples(0.4)
@given(data=st.data())
def test_different_values_have_different_captions(field: str, data: st.DataObject) -> None:
    case = data.draw(cases())
    sizes = {len(text) for text in case.texts}
    other = data.draw(specs(max(sizes), len(sizes) > 1, len(case.texts)))
    spec = replace(case.spec, **{field: getattr(other, field)})
    lengths = case.run().trace.spec.lengths
    assume(spec != case.spec and not spec_problems(replace(spec, lengths=lengths)))
    assert_told_apart(case, Case(case.texts, spec))


@examples(0.6)
@given(cases(Batch.EVEN, own_weights=()), st.data())
def test_specs_that_differ_in_many_ways_have_different_captions(
    case: Case, data: st.DataObject
) -> None:
    other = data.draw(specs(len(case.texts[0]), texts=len(case.texts), own_weights=()))
    own = {name: getattr(case.spec, name) for name in ("own_mask", "own_kept", "seed")}
    assert_told_apart(case, Case(case.texts, replace(other, **own)))


def assert_told_apart(case: Case, other: Case) -> None:
    first, second = run(case.texts, case.spec), run(other.texts, other.spec)
    if describe_value_origin(first) == describe_value_origin(second):
        for stage in ("weights", first.trace.output_stage_name):
            actual, expected = (one.trace.read(stage) for one in (first, second))
            np.testing.assert_array_equal(actual, expected)
        assert first.trace.names == second.trace.names
