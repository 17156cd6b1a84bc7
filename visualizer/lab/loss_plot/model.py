"""The content of the loss plot: its axes, lines, reference losses, gaps and legend."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from visualizer.lab.loss_plot.smoothing import SmoothedLosses
    from visualizer.lab.training.loss_history import LossHistory

EMPTY_MESSAGE = "Losses appear here during training."
LOSS, STEP = "loss (nats per token)", "step"
MAX_PLAIN, MIN_PLAIN = 1e7, 1e-4
"""Limits outside of which tick labels have an exponent."""


class AxisScale(StrEnum):
    """The scale of an axis."""

    LINEAR = "linear"
    LOG = "log"


class AxisTick(Struct, frozen=True):
    """A tick of an axis, with its label."""

    value: float
    label: str


class PlotAxis(Struct, frozen=True):
    """An axis: its limits, scale and ticks.

    Parameters
    ----------
    title : str
        The quantity with its unit.
    low, high : float
        The limits; `low` is smaller than `high`, and on a logarithmic axis, both are positive.
    """

    title: str
    low: float
    high: float
    scale: AxisScale = AxisScale.LINEAR
    ticks: tuple[AxisTick, ...] = ()

    def values_to_shares(self, values: np.ndarray | float) -> np.ndarray:
        """Map values to fractions of the axis, from 0 at `low` to 1 at `high`; NaN stays NaN."""
        low, high = _apply_axis_scale(np.array([self.low, self.high]), self.scale)
        floor = self.low if self.scale is AxisScale.LOG else -math.inf
        shares: np.ndarray = (_apply_axis_scale(np.maximum(values, floor), self.scale) - low) / (
            high - low
        )
        return shares

    def shares_to_values(self, shares: np.ndarray | float) -> np.ndarray:
        """Map fractions of the axis to values."""
        low, high = _apply_axis_scale(np.array([self.low, self.high]), self.scale)
        shown = low + np.asarray(shares, dtype=float) * (high - low)
        values: np.ndarray = 10**shown if self.scale is AxisScale.LOG else shown
        return values


def _apply_axis_scale(values: np.ndarray, scale: AxisScale) -> np.ndarray:
    return np.log10(values) if scale is AxisScale.LOG else values


def choose_ticks(
    low: float, high: float, scale: AxisScale, most: int, least: float = 0.0
) -> tuple[AxisTick, ...]:
    """Choose at most `most` round tick values for an axis.

    On a logarithmic axis, these are powers of ten and, if they fit, multiples of 2 and 5 between
    them. If there are fewer than three such values, the ticks are chosen as on a linear axis.

    Parameters
    ----------
    least : float
        Minimum distance between two ticks of a linear axis, which is 1 for counts.
    """
    if scale is AxisScale.LOG:
        for choice in ((1, 2, 5), (1, 3), (1,)):
            chosen = _decade_values(low, high, choice)
            if 3 <= len(chosen) <= most:
                return tuple(AxisTick(value, _tick_label(value, 0)) for value in chosen)
        if len(chosen) > most:
            every = math.ceil(len(chosen) / most)
            return tuple(AxisTick(value, _tick_label(value, 0)) for value in chosen[::every])
    return _linear_ticks(low, high, most, least)


def _decade_values(low: float, high: float, choice: tuple[int, ...]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in choice]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _linear_ticks(low: float, high: float, most: int, least: float) -> tuple[AxisTick, ...]:
    """Choose multiples of a step that is 1, 2 or 5 times a power of ten."""
    smallest = max(least, (high - low) / max(1, most))
    decade = 10.0 ** math.floor(math.log10(smallest))
    step = next(
        times * decade
        for times in (1, 2, 5, 10, 20)
        if _count_multiples(low, high, times * decade) <= most
    )
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    values = [at * step for at in range(first, first + _count_multiples(low, high, step))]
    largest = max((abs(value) for value in values), default=0)
    return tuple(AxisTick(value, _tick_label(value, decimals, largest)) for value in values)


def _count_multiples(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def _tick_label(value: float, decimals: int, largest: float = 0) -> str:
    """Format the value of a tick, with an exponent if the largest tick has one."""
    size = abs(value)
    if size and (max(size, largest) >= MAX_PLAIN or size < MIN_PLAIN):
        digits, _, power = f"{value:.1e}".partition("e")
        text = f"{digits.removesuffix('.0')}e{int(power)}"
    elif decimals or size >= 1 or size == 0:
        text = f"{value:,.{decimals}f}"
    else:
        text = f"{value:g}"
    return text.replace("-", "−")


class LossLineRole(StrEnum):
    """The role of a line: the losses that it shows."""

    EACH = "each step"
    TRAINING = "training"
    VALIDATION = "validation"


class PlottedRunLosses(Struct, frozen=True, eq=False):
    """The losses of a plotted run.

    Parameters
    ----------
    colour : int
        Index in the cycle of colours.
    """

    name: str
    losses: LossHistory
    colour: int = 0


class ReferenceLoss(Struct, frozen=True):
    """The loss of a baseline, which is drawn as a horizontal line.

    Parameters
    ----------
    name : str
        Name of the baseline, such as "unigram baseline".
    """

    name: str
    loss: float


class PlotOptions(Struct, frozen=True):
    """The options of the loss plot.

    Parameters
    ----------
    smoothing : float
        Strength of the exponential average: at least 0, which means no smoothing, and below 1.
    """

    smoothing: float = 0.95
    losses: AxisScale = AxisScale.LINEAR
    steps: AxisScale = AxisScale.LINEAR


class LossLine(Struct, frozen=True, eq=False):
    """A line of the plot, with all its points.

    Parameters
    ----------
    name : str
        The run's name if there are several runs; otherwise empty.
    steps, values : ndarray
        The points of the line, [point]; the steps are ascending, and the values may contain NaN
        and ∞.
    """

    name: str
    role: LossLineRole
    colour: int
    steps: np.ndarray
    values: np.ndarray

    @property
    def title(self) -> str:
        """The name of the line in the readout."""
        return f"{self.name}, {self.role}" if self.name else str(self.role)


class LegendEntry(Struct, frozen=True):
    """An entry of the legend, for the colour of a run, the stroke of a role, or both."""

    text: str
    role: LossLineRole | None
    colour: int | None


class NonFiniteLoss(Struct, frozen=True):
    """The first step at which a run's loss is not finite."""

    step: int
    description: str


class LossPlot(Struct, frozen=True, eq=False):
    """The content of the loss plot.

    Parameters
    ----------
    lines : tuple of LossLine
        The lines in painting order: the faint ones are first, and those of the open run are last.
    shown_step : int or None
        The selected step; None for the current model.
    stops : ndarray
        The steps of snapshots, int64 [stop], in ascending order.
    message : str
        Text that is shown instead of the plot if there is nothing to plot.
    notices : tuple of str
        Sentences that describe what is outside the plot.
    description : str
        Description for screen readers.
    smoothed_losses : tuple of SmoothedLosses
        The smoothed losses, which are kept so that the next plot only has to smooth new ones.
    """

    lines: tuple[LossLine, ...] = ()
    reference_losses: tuple[ReferenceLoss, ...] = ()
    keys: tuple[LegendEntry, ...] = ()
    loss_gaps: tuple[NonFiniteLoss, ...] = ()
    x: PlotAxis = field(default_factory=lambda: PlotAxis(STEP, 0, 1))
    y: PlotAxis = field(default_factory=lambda: PlotAxis(LOSS, 0, 1))
    shown_step: int | None = None
    stops: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    message: str = EMPTY_MESSAGE
    notices: tuple[str, ...] = ()
    description: str = EMPTY_MESSAGE
    rates: tuple[np.ndarray, np.ndarray] | None = None
    smoothed_losses: tuple[SmoothedLosses, ...] = ()

    @property
    def last_step(self) -> int:
        """The last step of all lines."""
        return max((int(line.steps[-1]) for line in self.lines), default=0)
