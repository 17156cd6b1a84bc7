"""Smooths losses, and thins lines to the resolution of the plot.

Sources: Kingma and Ba 2015, "Adam", §3 (bias correction of an exponential average that starts at
0); Jugel et al. 2014, "M4: A Visualization-Oriented Time Series Data Aggregation" (the first, last,
minimum and maximum of each pixel column draw the same line as all points).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.lab.training.loss_history import GrowingArray

if TYPE_CHECKING:
    from visualizer.lab.training.loss_history import LossHistory

MAX_BLOCK_EXPONENT = 100.0
"""Maximum exponent of e in a block of the average, so that sums do not overflow float64."""


class SmoothedLosses(Struct, frozen=True, eq=False):
    """The smoothed training losses of a run; created by `smooth_losses`.

    Parameters
    ----------
    average, weight : float
        The average after the last step, before bias correction, and the average that losses of 1
        would have.
    """

    losses: LossHistory
    strength: float
    average: float
    weight: float
    _values: GrowingArray

    @property
    def values(self) -> np.ndarray:
        """The smoothed loss of each step, float64 [step]; NaN if the loss is not finite."""
        return self._values.values


def smooth_losses(
    losses: LossHistory, strength: float, before: SmoothedLosses | None = None
) -> SmoothedLosses:
    """Smooth training losses with a bias-corrected exponential average.

    After each step, average ← strength · average + (1 − strength) · loss, starting at 0. The result
    after t steps is average / (1 − strengthᵗ), so that the first one is the loss itself. Losses
    that are not finite are skipped.

    Parameters
    ----------
    strength : float
        At least 0, which means no smoothing, and less than 1. The average covers about
        1 / (1 − strength) steps.
    before : SmoothedLosses, optional
        An earlier result; if the losses extend those of this result, only the new ones are
        smoothed.
    """
    if before is None or before.strength != strength or not losses.is_extension_of(before.losses):
        values = GrowingArray.of((), capacity=losses.capacity)
        before = SmoothedLosses(losses, strength, 0.0, 0.0, values)
    new = losses.training[len(before.values) :]
    is_number = np.isfinite(new)
    is_whole = bool(is_number.all())  # in the usual case, no masking is needed
    averages = _exponential_average(new if is_whole else new[is_number], strength, before.average)
    average = float(averages[-1]) if len(averages) else before.average
    weight = 1 - (1 - before.weight) * strength ** len(averages)
    smoothed = _correct_bias(averages, strength, before.weight)
    if not is_whole:
        smoothed = np.full(len(new), np.nan)
        smoothed[is_number] = averages
    return SmoothedLosses(losses, strength, average, weight, before._values.with_appended(smoothed))


def _correct_bias(averages: np.ndarray, strength: float, weight: float) -> np.ndarray:
    """Divide each average in place by the average for losses of 1, which is 1 after a block."""
    first = averages[: _block_length(strength)]
    first /= 1 - (1 - weight) * strength ** np.arange(1.0, len(first) + 1)
    return averages


def _block_length(strength: float) -> int:
    return max(1, int(MAX_BLOCK_EXPONENT / -math.log(strength))) if strength else 0


def _exponential_average(values: np.ndarray, strength: float, average: float) -> np.ndarray:
    """Return the average after each value, computed in blocks: Σ sⁿ⁻ⁱ xᵢ = sⁿ Σ xᵢ / sⁱ."""
    if strength == 0:
        return values.copy()
    block = _block_length(strength)
    averages = np.empty(len(values))
    powers = strength ** np.arange(1.0, min(block, len(values)) + 1)
    shares = (1 - strength) / powers
    for begin in range(0, len(values), block):
        some = averages[begin : begin + block]
        np.multiply(values[begin : begin + block], shares[: len(some)], out=some)
        np.cumsum(some, out=some)
        some += average
        some *= powers[: len(some)]
        average = float(some[-1])
    return averages


def unique_sorted(rising: np.ndarray) -> np.ndarray:
    """Remove repeated values from ascending numbers.

    `numpy.unique` is avoided: its first call imports a part of numpy, which causes a visible
    pause.
    """
    is_new = np.append(True, rising[1:] != rising[:-1])[: len(rising)]
    found: np.ndarray = rising[is_new]
    return found


def thin_line(
    steps: np.ndarray, values: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce a line to the first, lowest, highest and last point of each pixel column (M4).

    Parameters
    ----------
    steps, values : ndarray
        The line, [point]; the steps are ascending. NaN is kept in columns that contain nothing
        else.
    edges : ndarray
        Edges of the columns in steps, [column + 1], ascending. Points outside are removed, except
        for the nearest point on either side, to which the line leads.

    Returns
    -------
    steps, values
        A line with at most four points per column plus two; the given line if it has no more
        points.
    """
    if steps.dtype.kind == "i":
        edges = np.ceil(edges).astype(steps.dtype)  # otherwise, all steps would become floats
    first, last = np.searchsorted(steps, edges[0]), np.searchsorted(steps, edges[-1], "right")
    first, last = max(0, int(first) - 1), min(len(steps), int(last) + 1)
    steps, values = steps[first:last], values[first:last]
    if len(steps) <= 4 * (len(edges) - 1):
        return steps, values
    begins = np.searchsorted(steps, edges)
    begins = unique_sorted(np.append(0, begins[begins < len(steps)]))
    ends = np.append(begins[1:], len(steps)) - 1
    of_column = (
        values[begins],
        np.fmin.reduceat(values, begins),
        np.fmax.reduceat(values, begins),
        values[ends],
    )
    middle = (steps[begins] + steps[ends]) / 2
    places = (steps[begins], middle, middle, steps[ends])
    return np.stack(places, axis=1).reshape(-1), np.stack(of_column, axis=1).reshape(-1)
