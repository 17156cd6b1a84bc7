"""Heads folded into one, and the lengths of their values, are what float64 NumPy says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attention.strategies import Case, cases
from visualizer.attention.measures import Fold
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, Device, Mask, Projection

TEXT = ("Your", "journey", "starts", "with", "one", "step")
SPEC = AttentionSpec(device=Device.CPU, d_out=4)


# --------------------------------------------------------------------------------------- norms


@given(cases())
def test_norms_are_the_lengths_of_the_values(case: Case) -> None:
    trace = case.trace()
    values = trace.read("values").astype(np.float64)
    expected = np.sqrt((values**2).sum(-1))
    np.testing.assert_allclose(trace.value_norms(), expected, rtol=1e-5, atol=1e-6)
    assert trace.value_norms().shape == (*trace.batch, trace.spec.heads, trace.tokens)


def test_norms_are_kept_and_cannot_be_written() -> None:
    first = run((TEXT,), SPEC)
    norms = first.trace.value_norms()
    later = run((TEXT,), replace(SPEC, mask=Mask.NONE), first).trace
    assert np.shares_memory(norms, later.value_norms())
    with pytest.raises(ValueError, match="read-only"):
        norms[0, 0] = 1


# --------------------------------------------------------------------------------------- folds


@given(cases(), st.integers(1, 4), st.integers(1, 4))
def test_heads_are_folded_into_their_mean_or_their_largest(
    case: Case, rows: int, columns: int
) -> None:
    trace = case.trace()
    for stage in (stage.name for stage in trace.stages if "head" in stage.dims):
        numbers = trace.read(stage).astype(np.float64)
        with np.errstate(invalid="ignore"):
            folds = {Fold.MEAN: numbers.mean(-3), Fold.MAX: numbers.max(-3)}
        for by, expected in folds.items():
            found = trace.read((stage, by))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
            pooled = trace.read_pooled((stage, by), rows, columns)
            down, across = (
                np.arange(0, found.shape[-2], rows),
                np.arange(0, found.shape[-1], columns),
            )
            blocks = np.maximum.reduceat(found, down, axis=-2)
            blocks = np.maximum.reduceat(blocks, across, axis=-1)
            np.testing.assert_array_equal(pooled, blocks)
            finite = found[np.isfinite(found)]
            limits = (finite.min(), finite.max()) if finite.size else (0, 0)
            assert trace.limits((stage, by)) == limits


def test_folds_are_kept_with_the_stage_and_read_like_it() -> None:
    first = run((TEXT, TEXT[:3]), SPEC)
    name = ("weights", Fold.MEAN)
    held = first.trace.holding(name)
    assert first.trace.holding(name) is held
    later = run((TEXT, TEXT[:3]), replace(SPEC, dropout=0.5), first).trace
    assert later.holding(name) is held
    assert later.holding(("weights", Fold.MAX)) is not held
    assert later.tensor(name) is held.tensor
    np.testing.assert_array_equal(
        later.read(name, (1, slice(2))), later.read(name)[1, :2]
    )  # fmt: skip
    with pytest.raises(ValueError, match="read-only"):
        later.read(name)[0] = 1


@pytest.mark.parametrize("stage", ["output", "input", "nonsense"])
def test_what_has_no_heads_is_not_folded(stage: str) -> None:
    trace = run((TEXT, TEXT[:3]), SPEC).trace
    with pytest.raises(KeyError, match=stage):
        trace.read((stage, Fold.MEAN))


def test_stages_that_share_their_numbers_fold_without_copies_of_all_heads() -> None:
    free = replace(SPEC, projection=Projection.NONE, d_in=4, heads=2)
    trace = run((TEXT,), free).trace
    assert trace.tensor(("values", Fold.MAX)).shape == trace.tensor("values").shape[1:]
