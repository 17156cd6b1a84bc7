"""The problems of an invalid spec state why it cannot be computed and how to fix it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from visualizer.attention.mechanisms import (
    MECHANISM_TITLES,
    Mechanism,
    apply_mechanism,
    mechanism_of,
)
from visualizer.attention.spec import (
    AttentionSpec,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import check_spec, spec_problems
from visualizer.attention.stages import stages
from visualizer.errors import InputError, Problem

SIZES = st.integers(-1, 9) | st.integers(990, 1_010) | st.integers(999_990, 1_000_010)
ANY_SPEC = st.builds(
    AttentionSpec,
    d_in=SIZES,
    d_out=SIZES,
    heads=SIZES,
    projection=st.sampled_from(Projection),
    arrangement=st.sampled_from(HeadArrangement),
    temperature=st.floats(),
    normalisation=st.sampled_from(NormalisationKind),
    mask=st.sampled_from(MaskKind),
    window=SIZES,
    route=st.sampled_from(MaskPlacement),
    dropout=st.floats(),
    dropout_seed=st.integers(),
    seed=st.integers(),
    lengths=st.sampled_from([(), (2, 1)]),
)


@given(cases())
def test_what_can_be_computed_has_no_problem(case: Case) -> None:
    assert spec_problems(case.spec) == ()
    assert case.trace().spec.heads == case.spec.heads


@given(ANY_SPEC)
def test_a_remedy_mends_its_problem(spec: AttentionSpec) -> None:
    for problem in spec_problems(spec):
        assert problem.sentence.endswith(".")
        if problem.remedy:
            field, value = problem.remedy
            mended = replace(spec, **{field: value})
            assert problem.field not in {left.field for left in spec_problems(mended)}


def test_beside_own_weights_no_other_size_is_offered_for_heads() -> None:
    """Another size would not fit the custom weights, which would have to be removed."""
    own = (("W_query", NumberMatrix.from_array(np.zeros((3, 4)))),)
    (problem,) = spec_problems(AttentionSpec(d_in=3, d_out=4, heads=3, own_weights=own))
    assert problem.sentence == "The output size 4 cannot be split into 3 heads. Use 2 or 4 heads."
    assert problem.remedy == ("heads", 4)


@given(ANY_SPEC)
def test_check_raises_the_first_problem(spec: AttentionSpec) -> None:
    found = spec_problems(spec)
    if not found:
        check_spec(spec)
        return
    with pytest.raises(InputError) as refused:
        check_spec(spec)
    said = refused.value
    assert Problem(said.field, said.sentence, said.remedy) == found[0]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (
            {"heads": 0},
            "heads",
            "The number of heads must be at least 1 and at most 1,000. It is 0.",
        ),
        (
            {"d_out": 6, "heads": 4},
            "heads",
            "The output size 6 cannot be split into 4 heads. Use 3 or 6 heads, or the output size "
            "8.",
        ),
        (
            {"d_out": 5, "heads": 2},
            "heads",
            "The output size 5 cannot be split into 2 heads. Use 1 or 5 heads, or the output size "
            "6.",
        ),
        (
            {"d_out": 2, "heads": 3},
            "heads",
            "The output size 2 cannot be split into 3 heads. Use 2 heads, or the output size 3.",
        ),
        (
            {"d_in": 1, "heads": 2, "projection": Projection.NONE},
            "heads",
            "The embedding size 1 cannot be split into 2 heads. Use 1 head, or the embedding size "
            "2.",
        ),
        (
            {"dropout": 1.0},
            "dropout",
            "The dropout rate must be at least 0 and less than 1. It is 1.",
        ),
        (
            {"dropout": -0.5},
            "dropout",
            "The dropout rate must be at least 0 and less than 1. It is -0.5.",
        ),
        (
            {"dropout": math.nan},
            "dropout",
            "The dropout rate must be a number. It is nan.",
        ),
        (
            {"d_in": 1_000_001},
            "d_in",
            "The embedding size must be at least 1 and at most 1,000,000. It is 1,000,001.",
        ),
        (
            {"d_out": 10**30},
            "d_out",
            "The output size must be at least 1 and at most 1,000,000. "
            "It is a number of 31 digits.",
        ),
        (
            {"d_out": 3 * 667, "heads": 3 * 667},
            "heads",
            "The number of heads must be at least 1 and at most 1,000. It is 2,001.",
        ),
        (
            {"d_out": 1_000_000, "heads": 3},
            "heads",
            "The output size 1000000 cannot be split into 3 heads. Use 2 or 4 heads, or the "
            "output size 999999.",
        ),
        (
            {"mask": MaskKind.WINDOW, "window": 10**30},
            "window",
            "The window must be at least 1 and at most 1,000,000. It is a number of 31 digits.",
        ),
        ({"temperature": 0.0}, "temperature", "The temperature must be greater than 0. It is 0."),
        ({"seed": -1}, "seed", "The seed must be at least 0 and at most 2,147,483,647. It is -1."),
        (
            {"dropout_seed": 2**31},
            "dropout_seed",
            "The dropout seed must be at least 0 and at most 2,147,483,647. It is 2,147,483,648.",
        ),
        (
            {"mask": MaskKind.WINDOW, "window": 0},
            "window",
            "The window must be at least 1 and at most 1,000,000. It is 0.",
        ),
        (
            {"mask": MaskKind.OWN},
            "own_mask",
            "The matrix is empty. Enter one row of 0s and 1s for each query.",
        ),
        (
            {"normalisation": NormalisationKind.SUM},
            "normalisation",
            "A row that contains −∞ has no finite sum to divide by. Mask after normalizing.",
        ),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], field: str, said: str) -> None:
    spec = replace(AttentionSpec(), **change)
    assert [(problem.field, problem.sentence) for problem in spec_problems(spec)] == [(field, said)]


def test_what_padding_forbids_is_mended_by_the_normalisation_and_a_mask_by_its_route() -> None:
    spec = AttentionSpec(normalisation=NormalisationKind.SUM)
    (masked,), (padded,) = spec_problems(spec), spec_problems(replace(spec, lengths=(2, 1)))
    assert masked.remedy == ("route", MaskPlacement.AFTER_RENORMALISED)
    assert padded.remedy == ("normalisation", NormalisationKind.SOFTMAX)
    for route in MaskPlacement:
        for mask in (MaskKind.NONE, MaskKind.CAUSAL):
            assert spec_problems(replace(spec, lengths=(2, 1), route=route, mask=mask)) == (padded,)


def test_stacked_heads_need_not_divide() -> None:
    assert spec_problems(AttentionSpec(d_out=5, heads=3, arrangement=HeadArrangement.STACKED)) == ()


@pytest.mark.parametrize(
    ("change", "d_head", "width"),
    [
        ({}, 4, 8),
        ({"arrangement": HeadArrangement.STACKED}, 8, 16),
        ({"projection": Projection.NONE}, 3, 6),
        ({"projection": Projection.NONE, "arrangement": HeadArrangement.STACKED}, 6, 12),
    ],
)
def test_sizes_of_heads(change: dict[str, object], d_head: int, width: int) -> None:
    spec = replace(AttentionSpec(d_in=6, d_out=8, heads=2), **change)
    assert (spec.d_head, spec.concatenated_head_width) == (d_head, width)


def test_the_divisor_is_root_times_temperature() -> None:
    spec = AttentionSpec(d_in=9, d_out=8, heads=2)
    assert spec.divisor == 2
    assert replace(spec, temperature=0.5).divisor == 1
    assert replace(spec, scale=ScaleKind.D_MODEL).divisor == 3
    assert replace(spec, scale=ScaleKind.NONE).divisor == 1
    assert replace(spec, scale=ScaleKind.NONE, temperature=math.e).divisor == math.e


def test_scores_that_nothing_divides_have_no_scaled_stage() -> None:
    plain = AttentionSpec(scale=ScaleKind.NONE)
    assert "scaled" not in {row.name for row in stages(plain)}
    assert "scaled" in {row.name for row in stages(replace(plain, temperature=math.e))}


# --------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_mechanism_is_known_by_its_spec(mechanism: Mechanism) -> None:
    assert mechanism_of(apply_mechanism(mechanism)) is mechanism
    assert (
        mechanism_of(apply_mechanism(mechanism, apply_mechanism(Mechanism.MULTI_HEAD))) is mechanism
    )
    assert spec_problems(apply_mechanism(mechanism)) == ()
    assert MECHANISM_TITLES[mechanism]


def test_a_mechanism_leaves_alone_what_it_does_not_decide() -> None:
    base = AttentionSpec(d_in=7, d_out=4, dropout=0.25, seed=9)
    spec = apply_mechanism(Mechanism.CAUSAL, base)
    assert (spec.d_in, spec.d_out, spec.dropout, spec.seed) == (7, 4, 0.25, 9)
