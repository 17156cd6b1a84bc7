"""Smoothing agrees with its definition, and thinning removes no visible detail."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from visualizer.lab.loss_plot.smoothing import smooth_losses, thin_line
from visualizer.lab.training.loss_history import LossHistory

VALUES = some.lists(
    some.floats(0, 1e30) | some.sampled_from([float("nan"), float("inf")]), max_size=60
)
STRENGTH = some.sampled_from([0.0, 0.3, 0.9, 0.99, 0.9999])


def losses_of(values: list[float]) -> LossHistory:
    return LossHistory.of(np.arange(len(values)), values, np.ones(len(values)))


def by_definition(values: list[float], strength: float) -> list[float]:
    average, count, smoothed = 0.0, 0, []
    for value in values:
        if np.isfinite(value):
            average, count = strength * average + (1 - strength) * value, count + 1
        is_number = np.isfinite(value)
        smoothed.append(average / (1 - strength**count) if is_number else float("nan"))
    return smoothed


@given(VALUES, STRENGTH)
def test_smoothing_is_as_defined(values: list[float], strength: float) -> None:
    found = smooth_losses(losses_of(values), strength).values
    np.testing.assert_allclose(found, by_definition(values, strength), rtol=1e-9)


@given(VALUES, VALUES, STRENGTH)
def test_extending_gives_the_same_result_as_starting_over(
    first: list[float], more: list[float], strength: float
) -> None:
    before = losses_of(first)
    after = before.with_appended(
        np.arange(len(first), len(first) + len(more)), more, np.ones(len(more))
    )
    found = smooth_losses(after, strength, smooth_losses(before, strength)).values
    np.testing.assert_allclose(found, smooth_losses(after, strength).values, rtol=1e-9)


def test_long_runs_are_smoothed_in_blocks() -> None:
    values = np.random.default_rng(0).random(5000).tolist()
    for strength in (0.2, 0.95):
        found = smooth_losses(losses_of(values), strength).values
        np.testing.assert_allclose(found, by_definition(values, strength), rtol=1e-9)


def test_smoothed_losses_of_another_run_are_not_reused() -> None:
    other = smooth_losses(losses_of([9.0, 9.0]), 0.5)
    assert smooth_losses(losses_of([1.0, 1.0]), 0.5, other).values.tolist() == [1.0, 1.0]
    same = losses_of([1.0, 2.0])
    np.testing.assert_allclose(
        smooth_losses(same, 0.9, smooth_losses(same, 0.5)).values, by_definition([1.0, 2.0], 0.9)
    )


@given(some.integers(0, 3000), some.integers(1, 50))
def test_every_column_keeps_its_extremes(count: int, columns: int) -> None:
    rng = np.random.default_rng(count * columns)
    steps, values = np.cumsum(rng.integers(1, 4, count)), rng.standard_normal(count)
    edges = np.linspace(0, (steps[-1] if count else 0) + 1, columns + 1)
    at, found = thin_line(steps, values, edges)
    assert len(at) <= 4 * columns + 8
    assert (np.diff(at) >= 0).all()
    for low, high in pairwise(edges.tolist()):
        mine, its = values[(steps >= low) & (steps < high)], found[(at >= low) & (at < high)]
        if len(mine):
            ends = (mine.min(), mine.max(), mine[0], mine[-1])
            assert (its.min(), its.max(), its[0], its[-1]) == ends


def test_a_spike_among_a_million_losses_is_kept() -> None:
    values = np.ones(1_000_000)
    values[777_777] = 50
    at, found = thin_line(np.arange(1_000_000), values, np.linspace(0, 1_000_000, 601))
    assert found.max() == 50
    assert at[found.argmax()] == pytest.approx(777_777, abs=1_000_000 / 600)


def test_gaps_stay_if_a_column_contains_nothing_else() -> None:
    values = np.ones(1000)
    values[500:] = np.nan
    _, found = thin_line(np.arange(1000), values, np.linspace(0, 1000, 11))
    assert np.isnan(found[-4:]).all()
    assert np.isfinite(found[:4]).all()


def test_a_line_leads_out_of_the_visible_part() -> None:
    at, _ = thin_line(np.arange(100), np.arange(100.0), np.array([40.0, 50.0, 60.0]))
    assert at.min() < 40
    assert at.max() > 60
