"""A motion is a function of time: its phases follow each other, and the result comes last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEasingCurve

from visualizer.heatmap.step_motion_phases import (
    PHASES_MS,
    READ_PHASES,
    MotionKind,
    MotionPhase,
    dimming,
    ease,
    phase_progress,
    unpaused_motion_ms,
)

SHARES = st.floats(0, 1)


@given(st.sampled_from(MotionKind), SHARES, SHARES)
def test_each_phase_only_grows(kind: MotionKind, one: float, other: float) -> None:
    for phase in PHASES_MS[kind]:
        low, high = (phase_progress(kind, share, phase) for share in sorted((one, other)))
        assert 0 <= low <= high <= 1


@given(st.sampled_from(MotionKind), SHARES)
def test_a_phase_begins_when_the_one_before_it_has_ended(kind: MotionKind, share: float) -> None:
    passed = [phase_progress(kind, share, phase) for phase in PHASES_MS[kind]]
    assert sum(0 < one < 1 for one in passed) <= 1
    assert passed == sorted(passed, reverse=True)


@pytest.mark.parametrize("kind", MotionKind)
def test_the_result_is_shown_only_in_the_last_phase(kind: MotionKind) -> None:
    *_, last = PHASES_MS[kind]
    assert last is MotionPhase.LAND
    before = 1 - PHASES_MS[kind][MotionPhase.LAND] / unpaused_motion_ms(kind)
    assert phase_progress(kind, before, MotionPhase.LAND) == pytest.approx(0)
    assert phase_progress(kind, 1, MotionPhase.LAND) == 1


@pytest.mark.parametrize("kind", MotionKind)
def test_the_board_is_dimmed_only_during_the_motion(kind: MotionKind) -> None:
    assert dimming(kind, 0) == dimming(kind, 1) == 0
    assert dimming(kind, 0.5) == 1


@given(st.sampled_from(MotionKind), SHARES, st.floats(200, 6000))
def test_phases_follow_each_other_however_long_the_motion(
    kind: MotionKind, share: float, duration_ms: float
) -> None:
    passed = [phase_progress(kind, share, phase, duration_ms) for phase in PHASES_MS[kind]]
    assert sum(0 < one < 1 for one in passed) <= 1
    assert passed == sorted(passed, reverse=True)
    assert phase_progress(kind, 1, MotionPhase.LAND, duration_ms) == pytest.approx(1)


@pytest.mark.parametrize("kind", READ_PHASES)
def test_a_long_motion_pauses_while_its_card_is_read(kind: MotionKind) -> None:
    shares = [step / 1000 for step in range(1001)]
    moving = sum(
        any(0 < phase_progress(kind, share, phase, 3000) < 1 for phase in PHASES_MS[kind])
        for share in shares
    )
    assert moving < 500


@given(SHARES)
def test_the_easing_is_cubic(share: float) -> None:
    curve = QEasingCurve(QEasingCurve.Type.InOutCubic)
    assert ease(share) == pytest.approx(curve.valueForProgress(share), abs=1e-9)
