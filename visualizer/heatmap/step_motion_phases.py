"""Phases of a playback step's motion: pure functions of the time since the step began.

The operands lift and travel, then their numbers are combined, and only the last phase shows the
result.
"""

from __future__ import annotations

from enum import StrEnum, auto

from visualizer.attention.stages import Operation


class MotionKind(StrEnum):
    """How the operands of a step become its result."""

    MOVE = auto()
    SCORE = auto()
    SOFTMAX = auto()
    CONTEXT = auto()


class MotionPhase(StrEnum):
    """Part of a motion."""

    LIFT = auto()
    TRAVEL = auto()
    MEET = auto()
    EXPONENTIATE = auto()
    NORMALIZE = auto()
    SPLIT = auto()
    FLOW = auto()
    STACK = auto()
    LAND = auto()
    """The last phase of every motion, and the only one in which the result is painted."""


PHASES_MS = {
    MotionKind.MOVE: {MotionPhase.LIFT: 120, MotionPhase.TRAVEL: 360, MotionPhase.LAND: 120},
    MotionKind.SCORE: {
        MotionPhase.LIFT: 120,
        MotionPhase.TRAVEL: 200,
        MotionPhase.MEET: 160,
        MotionPhase.LAND: 120,
    },
    MotionKind.SOFTMAX: {
        MotionPhase.LIFT: 150,
        MotionPhase.EXPONENTIATE: 250,
        MotionPhase.NORMALIZE: 300,
        MotionPhase.LAND: 200,
    },
    MotionKind.CONTEXT: {
        MotionPhase.SPLIT: 150,
        MotionPhase.FLOW: 300,
        MotionPhase.STACK: 250,
        MotionPhase.LAND: 200,
    },
}
"""Duration of each phase in milliseconds, in order."""

READ_PHASES = {
    MotionKind.SCORE: (MotionPhase.MEET,),
    MotionKind.SOFTMAX: (MotionPhase.EXPONENTIATE, MotionPhase.NORMALIZE),
    MotionKind.CONTEXT: (MotionPhase.STACK,),
}
"""Phases after which a long motion pauses, so that its card can be read."""
MAX_READ_SLOWDOWN = 1.25
"""Maximum factor by which a motion with pauses slows down; the remaining time is for pauses."""

MOTION_KINDS = {
    Operation.DOT_PRODUCT: MotionKind.SCORE,
    Operation.SCORES_TO_WEIGHTS: MotionKind.SOFTMAX,
    Operation.WEIGHTED_SUM: MotionKind.CONTEXT,
}
"""The motion for each listed operation; for all others, the operands only move."""


def unpaused_motion_ms(kind: MotionKind) -> int:
    """Return the duration, in milliseconds, of a motion without pauses."""
    return sum(PHASES_MS[kind].values())


def phase_progress(
    kind: MotionKind, share: float, phase: MotionPhase, duration_ms: float | None = None
) -> float:
    """Return the eased progress of a phase: 0 until it begins, 1 once it has ended.

    Parameters
    ----------
    share : float
        Fraction of the motion, from 0 to 1.
    duration_ms : float, optional
        Duration of the whole motion; by default, it has no pauses.
    """
    whole = duration_ms or unpaused_motion_ms(kind)
    pauses = READ_PHASES.get(kind, ())
    moving = min(whole, MAX_READ_SLOWDOWN * unpaused_motion_ms(kind)) if pauses else whole
    start = 0.0
    for name, natural_ms in PHASES_MS[kind].items():
        ms = natural_ms * moving / unpaused_motion_ms(kind)
        if name is phase:
            return ease(min(1.0, max(0.0, (share * whole - start) / ms)))
        start += ms
        if name in pauses:
            start += (whole - moving) / len(pauses)
    raise KeyError(phase)


def dimming(kind: MotionKind, share: float, duration_ms: float | None = None) -> float:
    """Return how much everything except the operands is dimmed, from 0 to 1."""
    first, last = (
        phase_progress(kind, share, phase, duration_ms)
        for phase in (next(iter(PHASES_MS[kind])), MotionPhase.LAND)
    )
    return first - last


def ease(share: float) -> float:
    """Return the progress after a fraction of a duration, with cubic easing in and out."""
    return 4 * share**3 if share < 0.5 else 1 - (2 - 2 * share) ** 3 / 2
