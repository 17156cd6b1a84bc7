"""How numbers become colours: which maps, which curve, and which numbers are at the ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.derived import Lens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.attention.held import Held
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

# In a longer text nearly all weights are so small that on a scale to 1 all look alike.
SHORT = 24
# What is smaller, beside the numbers that it is the difference of, is lost in their rounding.
ROUNDING = 2e-6

AUTOMATIC = "automatic"
"""The name of the map that is light at 0 on light paper and dark at 0 on dark paper."""


class Curve(StrEnum):
    """How the numbers between the ends share the colours: by size, by power, or by order."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class Limits(StrEnum):
    """Which numbers have the colours at the ends.

    Automatic is 0 and 1 for the weights of a short text and each row's largest for those of a long
    one; for the other stages, the largest of all heads.
    """

    AUTO = "automatic"
    ROW = "row"
    PANEL = "panel"
    SHARED = "shared"
    TYPED = "typed"


@dataclass(frozen=True, slots=True)
class Colouring:
    """What was chosen of colours, for all panels.

    Parameters
    ----------
    typed : tuple of (stage, low, high)
        The ends of some stages, for limits that are typed. Where a stage has numbers below 0 its
        colours go as far below as above, whatever the lower end.
    diverging : str
        The map of numbers above and below 0; automatic is near the paper at 0.
    """

    curve: Curve = Curve.LINEAR
    limits: Limits = Limits.AUTO
    typed: tuple[tuple[str, float, float], ...] = ()
    sequential: str = "viridis"
    diverging: str = AUTOMATIC

    def ends(self, stage: str) -> tuple[float, float] | None:
        """Give the ends that were typed for a stage."""
        found = ((low, high) for name, low, high in self.typed if name == stage)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Colour:
    """How a panel's numbers become colours.

    Parameters
    ----------
    limits : Limits
        Which it came to be; never automatic.
    low, high : float
        The numbers at the two ends; of a scale by row, where no row goes beyond.
    """

    map: str
    curve: Curve
    limits: Limits
    low: float
    high: float

    @property
    def is_signed(self) -> bool:
        """Whether 0 is in the middle."""
        return self.low < 0


def colour_of(
    trace: Trace,
    stage: Stage,
    held: Held,
    lens: Lens,
    chosen: Colouring,
    largest: float | None = None,
    beside: tuple[Held, ...] = (),
) -> Colour:
    """Choose a panel's colours.

    Parameters
    ----------
    held : Held
        What is drawn: the stage, or what was made of it.
    largest : float, optional
        The size of the panel's own largest number, for limits by panel.
    beside : tuple of Held
        What is drawn beside it, in the same colours.
    """
    low, high = _ends_of((held, *beside))
    is_signed = low < 0 or not stage.is_weights
    limits = _limits(trace, stage, chosen, is_signed)
    farthest = max(abs(low), abs(high))
    typed = _typed(chosen, stage, is_signed) if limits is Limits.TYPED else None
    if limits is Limits.TYPED and typed is None:
        limits = Limits.SHARED
    if limits is Limits.PANEL and largest is not None:
        farthest = largest
    map_ = chosen.diverging if is_signed else chosen.sequential
    if is_signed:
        end = max(map(abs, typed)) if typed else farthest
        return Colour(map_, chosen.curve, limits, -(end or 1.0), end or 1.0)
    if typed:
        return Colour(map_, chosen.curve, limits, *typed)
    if chosen.limits is Limits.AUTO and lens is not Lens.TIMES_VALUE:
        # Weights and what dropout leaves of them share a scale, whichever cells are dropped.
        kept = trace.limits("weights")[1] / (1 - trace.spec.dropout) if "dropped" in trace else 0
        farthest = max(1.0, farthest, kept)
    return Colour(map_, chosen.curve, limits, 0.0, farthest or 1.0)


def _typed(chosen: Colouring, stage: Stage, is_signed: bool) -> tuple[float, float] | None:
    """Give the ends that were typed; where 0 is not in the middle, none of them is below it.

    They may have been typed while there were numbers below 0.
    """
    ends = chosen.ends(stage.name)
    if ends is None or is_signed:
        return ends
    low, high = max(ends[0], 0.0), ends[1]
    return (low, high) if low < high else None


def _ends_of(shown: tuple[Held, ...]) -> tuple[float, float]:
    lows, highs = zip(*(one.limits() for one in shown), strict=True)
    return min(lows), max(highs)


def change_colour(held: Held, chosen: Colouring, size: float, largest: float) -> Colour:
    """Choose the colours of a difference: 0 is in the middle, whatever numbers there are.

    Parameters
    ----------
    size : float
        The largest of the numbers that were compared: what is lost in their rounding is no change.
    largest : float
        The size of the panel's own largest difference, for limits by panel.
    """
    limits = chosen.limits if chosen.limits in {Limits.ROW, Limits.PANEL} else Limits.SHARED
    farthest = largest if limits is Limits.PANEL else max(map(abs, held.limits()))
    end = max(farthest, ROUNDING * size) or 1.0
    return Colour(chosen.diverging, chosen.curve, limits, -end, end)


def _limits(trace: Trace, stage: Stage, chosen: Colouring, is_signed: bool) -> Limits:
    if chosen.limits is not Limits.AUTO:
        return chosen.limits
    is_short = max(trace.sides) <= SHORT or chosen.curve is not Curve.LINEAR
    return Limits.SHARED if is_signed or is_short else Limits.ROW


def beyond(
    values: np.ndarray, marks: Iterable[np.ndarray | None], colour: Colour
) -> tuple[np.ndarray, np.ndarray] | None:
    """Say which numbers are below and above typed ends; None where there are no such ends.

    Parameters
    ----------
    marks : iterable of numpy.ndarray or None
        Boolean: cells that are no number of the scale.
    """
    if colour.limits is not Limits.TYPED or colour.curve is Curve.RANK:
        return None
    counts = counted(values, marks)
    holds = np.finfo(values.dtype)  # 0.6 as it is held is not above 0.6
    low, high = np.clip((colour.low, colour.high), holds.min, holds.max).astype(values.dtype)
    return counts & (values < low), counts & (values > high)


def counted(values: np.ndarray, marks: Iterable[np.ndarray | None]) -> np.ndarray:
    """Say which cells are numbers of the scale: the finite ones without a mark."""
    counts: np.ndarray = np.isfinite(values)
    for mark in marks:
        if mark is not None:
            counts &= ~mark
    return counts
