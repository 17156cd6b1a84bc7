"""Weight transforms agree with computations in float64 NumPy."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, Device, MaskKind, NumberMatrix

TEXT = ("Your", "journey", "starts", "with", "one", "step")
SPEC = AttentionSpec(device=Device.CPU, d_out=4)


@given(cases())
def test_heads_are_folded_into_their_mean_or_their_largest(case: Case) -> None:
    trace = case.trace()
    for stage in (stage.name for stage in trace.stages if "head" in stage.dims):
        numbers = trace.read(stage).astype(np.float64)
        with np.errstate(invalid="ignore"):
            folds = {HeadAggregate.MEAN: numbers.mean(-3), HeadAggregate.MAX: numbers.max(-3)}
        for by, expected in folds.items():
            found = trace.displayed_tensor(stage, by=by)
            np.testing.assert_allclose(found.read(), expected, rtol=1e-5, atol=1e-5)
            finite = expected[np.isfinite(expected)]
            limits = (finite.min(), finite.max()) if finite.size else (0, 0)
            np.testing.assert_allclose(found.limits(), limits, rtol=1e-5, atol=1e-5)


@given(cases())
def test_without_the_first_token_the_rest_is_shared_out_anew(case: Case) -> None:
    trace = case.trace()
    weights = trace.read("weights").astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        return  # such rows cannot be renormalized
    rest = weights.copy()
    rest[..., 0] = 0
    sums = rest.sum(-1, keepdims=True)
    expected = np.divide(rest, sums, out=np.zeros_like(rest), where=sums != 0)
    found = trace.displayed_tensor("weights", WeightTransform.WITHOUT_FIRST).read()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@given(cases())
def test_weights_times_the_lengths_of_their_values(case: Case) -> None:
    trace = case.trace()
    values = trace.read("values").astype(np.float64)  # head key d_head
    lengths = np.sqrt((values**2).sum(-1))[..., None, :]
    expected = trace.read("weights").astype(np.float64) * lengths
    found = trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE).read()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_lens_changes_weights_alone_and_folds_look_through_it() -> None:
    trace = run((TEXT,), SPEC).trace
    assert trace.displayed_tensor(
        "scores", WeightTransform.WITHOUT_FIRST
    ) is trace.cached_stage_tensor("scores")
    seen = trace.displayed_tensor(
        "weights", WeightTransform.WITHOUT_FIRST, HeadAggregate.MEAN
    ).read()
    each = trace.displayed_tensor("weights", WeightTransform.WITHOUT_FIRST).read()
    np.testing.assert_allclose(seen, each.mean(axis=0), atol=1e-6)


def test_what_was_made_is_kept_with_its_stage_until_what_it_reads_changes() -> None:
    first = run((TEXT, TEXT[:3]), SPEC)
    held = first.trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE, HeadAggregate.MEAN)
    later = run((TEXT, TEXT[:3]), replace(SPEC, dropout=0.5), first).trace
    assert (
        later.displayed_tensor("weights", WeightTransform.TIMES_VALUE, HeadAggregate.MEAN) is held
    )
    unmasked = run((TEXT, TEXT[:3]), replace(SPEC, mask=MaskKind.NONE), first).trace
    assert (
        unmasked.displayed_tensor("weights", WeightTransform.TIMES_VALUE, HeadAggregate.MEAN)
        is not held
    )
    with pytest.raises(ValueError, match="read-only"):
        held.read()[...] = 1


@pytest.mark.parametrize("stage", ["output", "input", "nonsense"])
def test_what_has_no_heads_is_not_folded(stage: str) -> None:
    trace = run((TEXT, TEXT[:3]), SPEC).trace
    with pytest.raises(KeyError, match=stage):
        trace.displayed_tensor(stage, by=HeadAggregate.MEAN)


@given(cases(), st.integers(0, 3))
def test_the_ends_of_rows_are_the_sizes_of_their_largest_numbers(case: Case, number: int) -> None:
    trace = case.trace()
    stage = trace.stages[-1 - number].name
    numbers = np.abs(trace.read(stage))
    expected = np.where(np.isfinite(numbers), numbers, 0).max(axis=-1)
    np.testing.assert_array_equal(trace.cached_stage_tensor(stage).row_magnitudes(), expected)


def test_weights_keep_nothing_of_values_that_are_gone() -> None:
    spec = AttentionSpec(device=Device.CPU)
    last = run((TEXT,), spec)
    weights = last.trace.cached_stage_tensor("weights")
    gone = []
    for seed in range(4):
        gone.append(ref(last.trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE)))
        own = NumberMatrix.from_array(
            np.random.default_rng(seed).standard_normal((spec.d_in, spec.concatenated_head_width))
        )
        last = run((TEXT,), replace(spec, own_weights=(("W_value", own),)), last)
    assert last.trace.cached_stage_tensor("weights") is weights
    gc.collect()
    assert [made() for made in gone] == [None] * 4
    assert last.trace.displayed_tensor(
        "weights", WeightTransform.TIMES_VALUE
    ) is last.trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE)
