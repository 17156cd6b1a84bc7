"""The loss plot as values: lines, reference losses, gaps, axes and their ticks.

`visualizer.lab.loss_plot.present_plot` makes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visualizer.lab.loss_plot.smoothing import SmoothedLosses
    from visualizer.lab.training.losses import Losses

MESSAGE = "The loss of each step is drawn here while a model trains."
LOSS, STEP = "loss, nats a token", "step"


class LossLineRole(StrEnum):
    """What a line shows."""

    EACH = "each step"
    TRAINING = "training"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """The losses of a plotted run.

    Parameters
    ----------
    colour : int
        Its index in the colour cycle.
    """

    name: str
    losses: Losses
    colour: int = 0


@dataclass(frozen=True, slots=True)
class ReferenceLoss:
    """A baseline loss, drawn as a horizontal line.

    Parameters
    ----------
    name : str
        What has this loss, as in "guessing by frequency".
    """

    name: str
    loss: float


class AxisScale(StrEnum):
    """The scale of an axis."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class PlotLook:
    """The options of the loss plot.

    Parameters
    ----------
    smoothing : float
        Strength of the exponential average, from 0 for none to below 1.
    """

    smoothing: float = 0.95
    losses: AxisScale = AxisScale.LINEAR
    steps: AxisScale = AxisScale.LINEAR


@dataclass(frozen=True, slots=True, eq=False)
class LossLine:
    """A line of the plot, with all its points.

    Parameters
    ----------
    name : str
        The run's name, where there are several; else empty.
    steps, values : ndarray
        [point]; steps ascend, values may hold NaN and ∞.
    """

    name: str
    role: LossLineRole
    colour: int
    steps: np.ndarray
    values: np.ndarray

    @property
    def title(self) -> str:
        """The name in the readout."""
        return f"{self.name}, {self.role}" if self.name else str(self.role)


@dataclass(frozen=True, slots=True)
class LegendKey:
    """An entry of the legend: a run's colour, a role's stroke, or both if there is one run."""

    words: str
    role: LossLineRole | None
    colour: int | None


@dataclass(frozen=True, slots=True)
class LossGap:
    """The first step at which a run's loss is not finite."""

    step: int
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class LossPlot:
    """The content of the loss plot.

    Parameters
    ----------
    lines : tuple of LossLine
        The faint ones first, this run's last: in the order of painting.
    stand : int or None
        The selected step; None for the present.
    stops : ndarray
        The steps of snapshots, int64 [stop], ascending.
    message : str
        Text shown instead while there is nothing to plot.
    notices : tuple of str
        What the picture leaves out, in sentences.
    told : str
        A description for screen readers.
    smoothed : tuple of SmoothedLosses
        Kept so that the next plot smooths only new losses.
    """

    lines: tuple[LossLine, ...] = ()
    references: tuple[ReferenceLoss, ...] = ()
    keys: tuple[LegendKey, ...] = ()
    breaks: tuple[LossGap, ...] = ()
    x: PlotAxis = field(default_factory=lambda: PlotAxis(STEP, 0, 1))
    y: PlotAxis = field(default_factory=lambda: PlotAxis(LOSS, 0, 1))
    stand: int | None = None
    stops: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    message: str = MESSAGE
    notices: tuple[str, ...] = ()
    told: str = MESSAGE
    rates: tuple[np.ndarray, np.ndarray] | None = None
    smoothed: tuple[SmoothedLosses, ...] = ()

    @property
    def last(self) -> int:
        """The last step of any line."""
        return max((int(line.steps[-1]) for line in self.lines), default=0)


LARGEST_PLAIN, SMALLEST_PLAIN = 1e7, 1e-4
"""Numbers outside this range are written with an exponent."""


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A tick of an axis with its label."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """An axis: its extent, scale and ticks.

    Parameters
    ----------
    title : str
        What is measured, with its unit.
    low, high : float
        Its ends, low below high; above 0 on a logarithmic one.
    """

    title: str
    low: float
    high: float
    scale: AxisScale = AxisScale.LINEAR
    ticks: tuple[AxisTick, ...] = ()

    def share(self, values: np.ndarray | float) -> np.ndarray:
        """Map values to shares, 0 at the low end and 1 at the high one; NaN stays NaN."""
        low, high = _shown(np.array([self.low, self.high]), self.scale)
        floor = self.low if self.scale is AxisScale.LOG else -math.inf
        shares: np.ndarray = (_shown(np.maximum(values, floor), self.scale) - low) / (high - low)
        return shares

    def value(self, shares: np.ndarray | float) -> np.ndarray:
        """Map shares of the axis to values."""
        low, high = _shown(np.array([self.low, self.high]), self.scale)
        shown = low + np.asarray(shares, dtype=float) * (high - low)
        values: np.ndarray = 10**shown if self.scale is AxisScale.LOG else shown
        return values


def _shown(values: np.ndarray, scale: AxisScale) -> np.ndarray:
    return np.log10(values) if scale is AxisScale.LOG else values


def ticks(
    low: float, high: float, scale: AxisScale, most: int, least: float = 0.0
) -> tuple[AxisTick, ...]:
    """Choose at most `most` round tick values of an axis.

    On a logarithmic axis these are powers of ten, with 2 and 5 between them where they fit; where
    that would be fewer than three, steps as on a linear axis.

    Parameters
    ----------
    least : float
        The least distance between two ticks of a linear axis: 1 for counts.
    """
    if scale is AxisScale.LOG:
        for choice in ((1, 2, 5), (1, 3), (1,)):
            chosen = _of_decades(low, high, choice)
            if 3 <= len(chosen) <= most:
                return tuple(AxisTick(value, _label(value, 0)) for value in chosen)
        if len(chosen) > most:
            every = math.ceil(len(chosen) / most)
            return tuple(AxisTick(value, _label(value, 0)) for value in chosen[::every])
    return _even(low, high, most, least)


def _of_decades(low: float, high: float, choice: tuple[int, ...]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in choice]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _even(low: float, high: float, most: int, least: float) -> tuple[AxisTick, ...]:
    """Choose multiples of 1, 2 or 5 times a power of ten."""
    smallest = max(least, (high - low) / max(1, most))
    decade = 10.0 ** math.floor(math.log10(smallest))
    step = next(
        times * decade for times in (1, 2, 5, 10, 20) if _count(low, high, times * decade) <= most
    )
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    values = [at * step for at in range(first, first + _count(low, high, step))]
    largest = max((abs(value) for value in values), default=0)
    return tuple(AxisTick(value, _label(value, decimals, largest)) for value in values)


def _count(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def _label(value: float, decimals: int, largest: float = 0) -> str:
    """Format a number, with an exponent if the largest beside it has one."""
    size = abs(value)
    if size and (max(size, largest) >= LARGEST_PLAIN or size < SMALLEST_PLAIN):
        digits, _, power = f"{value:.1e}".partition("e")
        written = f"{digits.removesuffix('.0')}e{int(power)}"
    elif decimals or size >= 1 or size == 0:
        written = f"{value:,.{decimals}f}"
    else:
        written = f"{value:g}"
    return written.replace("-", "−")
