"""How far the axes of the plot of losses go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.lab.axis import Axis, Scale, ticks
from visualizer.state.lab.plotted import LOSS, STEP
from visualizer.state.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.state.lab.plotted import Line, Reference

MOST_STEPS, MOST_LOSSES = 6, 6
"""Numbers at an axis."""
MARGIN = 0.05
"""Of the height, above the largest and below the least loss."""
FURTHEST = 3.0
"""A linear axis goes to so many times the first losses: a divergence would flatten all else."""

LARGEST = 1e100
"""Losses beyond are drawn at the end of the axis: no training in float32 has one."""


def steps_axis(lines: Sequence[Line], scale: Scale) -> Axis:
    """Choose the axis of steps; on a logarithmic one, step 0 stands where 1 does."""
    high = max(float(line.steps[-1]) for line in lines)
    low, least = (1.0, 10.0) if scale is Scale.LOG else (0.0, 1.0)
    high = max(high, least)
    return Axis(STEP, low, high, scale, ticks(low, high, scale, MOST_STEPS, least=1))


def losses_axis(
    lines: Sequence[Line], references: Sequence[Reference], scale: Scale
) -> tuple[Axis, tuple[str, ...]]:
    """Choose the axis of losses, and say what it leaves out."""
    found = [_extent(line.values) for line in lines] + [(one.loss, one.loss) for one in references]
    extents = [extent for extent in found if extent] or [(1.0, 1.0)]
    low, high = min(low for low, _ in extents), max(high for _, high in extents)
    notices: tuple[str, ...] = ()
    if scale is Scale.LOG:
        low = max(low if low > 0 else _least_above_zero(lines), 1 / LARGEST)
        low, high = _apart(low, max(low, high), scale)
    else:
        most = FURTHEST * _usual(lines, references)
        if high > most > low:
            notices = (f"Losses up to {number(high, 1)} stand above the plot.",)
            high = most
        low, high = _apart(low, high, scale)
    return Axis(LOSS, low, high, scale, ticks(low, high, scale, MOST_LOSSES)), notices


def _extent(values: np.ndarray) -> tuple[float, float] | None:
    """Give the least and the largest number; None where none is one."""
    least, most = float(values.min()), float(values.max())
    if not math.isfinite(least + most):
        values = values[np.isfinite(values)]
        if not len(values):
            return None
        least, most = float(values.min()), float(values.max())
    return min(least, LARGEST), min(most, LARGEST)


def _least_above_zero(lines: Sequence[Line]) -> float:
    """Find where a logarithmic axis begins if a loss is 0."""
    above = (line.values[np.isfinite(line.values) & (line.values > 0)] for line in lines)
    return min((float(some.min()) for some in above if len(some)), default=1.0)


def _usual(lines: Sequence[Line], references: Sequence[Reference]) -> float:
    """Give a loss that everything before a divergence is near to, or below."""
    firsts = (float(line.values[np.argmax(np.isfinite(line.values))]) for line in lines)
    known = [first for first in firsts if math.isfinite(first)]
    return max(known + [reference.loss for reference in references], default=0.0)


def _apart(low: float, high: float, scale: Scale) -> tuple[float, float]:
    """Set the ends a margin apart from the losses, and from each other."""
    if scale is Scale.LOG:
        margin = max((high / low) ** MARGIN, 1.02)
        return low / margin, high * margin
    margin = max(MARGIN * (high - low), 0.01 * abs(high), 1e-6)
    return max(0.0, low - margin) if low >= 0 else low - margin, high + margin
