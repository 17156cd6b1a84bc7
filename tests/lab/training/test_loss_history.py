"""Appending losses is cheap, and repeated steps replace earlier losses."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from visualizer.lab.training.loss_history import LossHistory

LOSS = some.floats(min_value=0) | some.just(math.nan)
ROWS = some.lists(some.tuples(some.integers(0, 40), LOSS, some.none() | LOSS), max_size=30)
"""Rows as in a file; a repeated step replaces the earlier row of this step and all later rows."""


def lasting(rows: list[tuple[int, float, float | None]]) -> list[tuple[int, float, float | None]]:
    """Return the rows that remain, determined one by one."""
    kept: list[tuple[int, float, float | None]] = []
    for each in rows:
        kept = [other for other in kept if other[0] < each[0]]
        kept.append(each)
    return kept


def columns(losses: LossHistory) -> list[list[float]]:
    arrays = (losses.steps, losses.training, losses.rates)
    return [part.tolist() for part in (*arrays, losses.validation_steps, losses.validation)]


def assert_same(losses: LossHistory, rows: list[tuple[int, float, float | None]]) -> None:
    steps, training, rates, validation_steps, validation = columns(losses)
    assert steps == [step for step, _, _ in rows]
    np.testing.assert_array_equal(training, [loss for _, loss, _ in rows])
    assert rates == [0.5] * len(rows)
    measured = [(step, loss) for step, _, loss in rows if loss is not None]
    assert validation_steps == [step for step, _ in measured]
    np.testing.assert_array_equal(validation, [loss for _, loss in measured])


# ----------------------------------------------------------------------------------- extension


@given(ROWS)
def test_added_losses_replace_all_from_their_first_step_on(
    rows: list[tuple[int, float, float | None]],
) -> None:
    losses = LossHistory.of()
    for step, loss, _ in rows:
        losses = losses.with_appended([step], [loss], [0.5])
    kept = lasting([(step, loss, None) for step, loss, _ in rows])
    assert_same(losses, kept)
    at_once = LossHistory.of(
        [step for step, _, _ in rows], [loss for _, loss, _ in rows], [0.5] * len(rows)
    )
    assert_same(at_once, kept)


def test_expected_losses_are_added_without_copying() -> None:
    first = LossHistory.with_capacity(6).with_appended([0, 1], [3.0, 2.0], [0.5, 0.5])
    more = first.with_appended([2, 3, 4, 5], [1.0] * 4, [0.5] * 4)
    further = more.with_appended([6], [1.0], [0.5])
    assert np.shares_memory(first.training, more.training)
    assert not np.shares_memory(more.training, further.training)
    assert_same(first, [(0, 3.0, None), (1, 2.0, None)])
    assert_same(
        further, [(0, 3.0, None), (1, 2.0, None), *((step, 1.0, None) for step in range(2, 7))]
    )


@given(some.lists(some.integers(0, 5), max_size=12))
def test_earlier_values_stay_and_branches_are_independent(lengths: list[int]) -> None:
    losses, known = LossHistory.of(), []
    for length in lengths:
        begin = len(losses)
        steps = np.arange(begin, begin + length)
        one = losses.with_appended(steps, steps + 0.5, steps)
        other = losses.with_appended(steps, steps + 0.25, steps)
        known.append((one, steps, 0.5))
        known.append((other, steps, 0.25))
        losses = one if length % 2 else other
    for held, steps, part in known:
        assert held.training[len(held) - len(steps) :].tolist() == (steps + part).tolist()


def test_values_are_read_only() -> None:
    losses = LossHistory.of([1], [2.0], [0.1], [1], [2.5])
    parts = (losses.steps, losses.training, losses.rates, losses.validation_steps)
    for array in (*parts, losses.validation):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_columns_of_different_lengths_are_a_bug() -> None:
    with pytest.raises(ValueError, match="columns"):
        LossHistory.of([1, 2], [1.0], [0.1])


def test_extending_a_million_steps_does_not_copy_them() -> None:
    def spent(count: int) -> float:
        losses = LossHistory.of(np.arange(count), np.ones(count), np.ones(count))
        losses = losses.with_appended([count], [1.0], [1.0])  # this reserves memory
        begin = perf_counter()
        for at in range(1, 400):
            losses = losses.with_appended([count + at], [1.0], [1.0])
        return perf_counter() - begin

    copied = 400 * 3 * 8e6 / 2e10  # seconds for copying everything each time, at 20 GB per second
    assert min(spent(1_000_000) for _ in range(3)) < copied / 2


def test_extended_losses_are_recognized() -> None:
    begun = LossHistory.of([1, 2], [3.0, 2.0], [1.0, 1.0])
    further = begun.with_appended([3], [1.0], [1.0])
    assert further.is_extension_of(begun)
    assert not begun.is_extension_of(further)
    assert not begun.with_appended([3], [9.0], [1.0]).is_extension_of(further)  # another branch
    assert not further.with_appended([2], [9.0], [1.0]).is_extension_of(further)
    assert further.with_appended(validation_steps=[3], validation=[1.0]).is_extension_of(further)
