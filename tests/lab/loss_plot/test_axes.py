"""Axis ticks are few, round and correctly placed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from visualizer.lab.loss_plot.model import AxisScale, PlotAxis, choose_ticks

ENDS = some.tuples(some.floats(1e-3, 1e6), some.floats(1.01, 1e6)).map(
    lambda ends: (ends[0], ends[0] * ends[1])
)


@given(ENDS, some.sampled_from(AxisScale), some.integers(3, 9))
def test_ticks_are_round_few_and_inside(
    ends: tuple[float, float], scale: AxisScale, most: int
) -> None:
    low, high = ends
    chosen = choose_ticks(low, high, scale, most)
    values = [tick.value for tick in chosen]
    assert len(values) <= most
    assert values == sorted(set(values))
    assert all(low * (1 - 1e-6) <= value <= high * (1 + 1e-6) for value in values)
    steps = np.diff(values)
    if len(steps) > 1 and np.allclose(steps, steps[0]):
        digits = steps[0] / 10.0 ** math.floor(math.log10(steps[0]) + 1e-9)
        assert round(digits, 6) in {1, 2, 5, 9}  # a step of 9 is from 1 to 10


@given(ENDS, some.sampled_from(AxisScale), some.integers(3, 9))
def test_labels_state_the_values(ends: tuple[float, float], scale: AxisScale, most: int) -> None:
    for tick in choose_ticks(*ends, scale, most):
        said = float(tick.label.replace(",", "").replace("−", "-"))
        assert said == pytest.approx(tick.value, rel=0.05)


@pytest.mark.parametrize(
    ("ends", "scale", "labels"),
    [
        ((0, 3000), AxisScale.LINEAR, ["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"]),
        ((1.2, 4.3), AxisScale.LINEAR, ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]),
        ((1, 1e6), AxisScale.LOG, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]),
        ((0.01, 4), AxisScale.LOG, ["0.01", "0.03", "0.1", "0.3", "1", "3"]),
        ((1.2, 4.3), AxisScale.LOG, ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]),
        ((0, 2e8), AxisScale.LINEAR, ["0", "5e7", "1e8", "1.5e8", "2e8"]),
    ],
)
def test_known_ticks(ends: tuple[float, float], scale: AxisScale, labels: list[str]) -> None:
    assert [tick.label for tick in choose_ticks(*ends, scale, 7)] == labels


def test_counts_have_integer_ticks() -> None:
    assert [tick.label for tick in choose_ticks(0, 2, AxisScale.LINEAR, 6, least=1)] == [
        "0",
        "1",
        "2",
    ]


@given(ENDS, some.sampled_from(AxisScale), some.floats(0, 1))
def test_fractions_and_values_are_inverse(
    ends: tuple[float, float], scale: AxisScale, share: float
) -> None:
    axis = PlotAxis("", *ends, scale)
    assert axis.values_to_shares(axis.shares_to_values(share)) == pytest.approx(share, abs=1e-6)


def test_values_without_a_logarithm_are_at_the_low_end() -> None:
    axis = PlotAxis("", 1, 100, AxisScale.LOG)
    assert axis.values_to_shares(np.array([0.0, 1.0, 10.0, 100.0])).tolist() == [0, 0, 0.5, 1]
    assert np.isnan(axis.values_to_shares(math.nan))
