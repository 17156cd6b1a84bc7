"""The positions of snapshots on a logarithmic axis, and their descriptions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline, present_snapshots
from visualizer.lab.training.loss_history import MeasuredLoss

STEPS = st.lists(st.integers(0, 10_000), max_size=20)


@given(STEPS, st.integers(0, 10_000), st.none() | st.integers(0, 10_000))
def test_stops_are_in_order_and_end_at_the_current_step(
    steps: list[int], now: int, looked: int | None
) -> None:
    scrub = present_snapshots(steps, now, looked)
    assert scrub.stops[-1] is None
    assert scrub.stop_shares[-1] == 1
    assert list(scrub.stop_shares) == sorted(scrub.stop_shares)
    assert all(0 <= share <= 1 for share in scrub.stop_shares)
    assert 0 <= scrub.index < len(scrub.stops)
    if looked is None:
        assert scrub.is_current_model
    elif looked in steps:
        assert scrub.selected_step == looked


@given(STEPS, st.integers(1, 10_000), st.floats(-0.5, 1.5))
def test_the_nearest_stop_is_found(steps: list[int], now: int, share: float) -> None:
    scrub = present_snapshots(steps, now, None)
    found = scrub.nearest_index(share)
    least = min(abs(one - share) for one in scrub.stop_shares)
    assert abs(scrub.stop_shares[found] - share) == pytest.approx(least)


def test_the_axis_is_logarithmic() -> None:
    scrub = SnapshotTimeline(current_step=99_999)
    places = [scrub.share_of_step(10**power - 1) for power in range(1, 6)]
    assert [round(one, 9) for one in places] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert scrub.share_of_step(0) == 0
    assert scrub.share_of_step(9) == pytest.approx(math.log(10) / math.log(100_000))


def test_a_removed_snapshot_is_replaced_by_the_nearest_one() -> None:
    assert present_snapshots([0, 10, 100], 500, 60).selected_step == 100
    assert present_snapshots([0, 10, 100], 500, 50).selected_step == 10
    assert present_snapshots([], 500, 50).selected_step is None


@pytest.mark.parametrize(
    ("looked", "losses", "said"),
    [
        (
            10,
            (MeasuredLoss(2.5, 10), MeasuredLoss(2.61234, 10)),
            "Step 10 of 1,500: training loss 2.500, validation loss 2.612",
        ),
        (
            100,
            (MeasuredLoss(2.5, 100), MeasuredLoss(2.75, 10)),
            "Step 100 of 1,500: training loss 2.500, validation loss 2.750 at step 10",
        ),
        (None, (MeasuredLoss(2.5, 1499), None), "Current model, step 1,500: training loss 2.500"),
        (
            None,
            (MeasuredLoss(2.5, 1400), None),
            "Current model, step 1,500: training loss 2.500 at step 1,400",
        ),
        (0, (None, None), "Step 0 of 1,500 (untrained)"),
    ],
)
def test_a_stop_is_described(
    looked: int | None, losses: tuple[MeasuredLoss | None, MeasuredLoss | None], said: str
) -> None:
    assert present_snapshots([0, 10, 100], 1500, looked, *losses).description == said


def test_a_recorded_model_may_have_been_trained_before() -> None:
    described = present_snapshots([0, 10], 10, 0, is_recorded=True).description
    assert described == "Step 0 of 10 (before training)"


def test_moves_stop_at_the_ends() -> None:
    scrub = present_snapshots([0, 10], 100, 0)
    assert scrub.index_at_distance(-1) == 0
    assert scrub.index_at_distance(1) == 1
    assert scrub.index_at_distance(9) == 2
    assert [step for step, _ in scrub.ticks] == [0, 1, 10]
