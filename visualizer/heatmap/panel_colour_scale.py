"""The colour scale of a panel: its colour map, its curve, and the numbers at its two ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.weight_transforms import WeightTransform
from visualizer.session.compared_tensors import ROUNDING
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.attention.stages import Stage
    from visualizer.attention.tensor_cache import CachedTensor
    from visualizer.attention.trace import Trace
    from visualizer.session.view_options import ColourOptions

# In a longer text nearly all weights are so small that on a scale to 1 all look alike.
SHORT = 24


@dataclass(frozen=True, slots=True)
class ColourScale:
    """How a panel's numbers become colours.

    Parameters
    ----------
    limits : Limits
        Which it came to be; never automatic.
    low, high : float
        The numbers at the two ends; of a scale by row, where no row goes beyond.
    """

    map: str
    curve: ColourCurve
    limits: ColourLimits
    low: float
    high: float

    @property
    def is_signed(self) -> bool:
        """Whether 0 is in the middle."""
        return self.low < 0


def colour_of(
    trace: Trace,
    stage: Stage,
    held: CachedTensor,
    lens: WeightTransform,
    chosen: ColourOptions,
    largest: float | None = None,
    beside: tuple[CachedTensor, ...] = (),
) -> ColourScale:
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
    typed = _typed(chosen, stage, is_signed) if limits is ColourLimits.TYPED else None
    if limits is ColourLimits.TYPED and typed is None:
        limits = ColourLimits.SHARED
    if limits is ColourLimits.PANEL and largest is not None:
        farthest = largest
    map_ = chosen.diverging if is_signed else chosen.sequential
    if is_signed:
        end = max(map(abs, typed)) if typed else farthest
        return ColourScale(map_, chosen.curve, limits, -(end or 1.0), end or 1.0)
    if typed:
        return ColourScale(map_, chosen.curve, limits, *typed)
    if chosen.limits is ColourLimits.AUTO and lens is not WeightTransform.TIMES_VALUE:
        # Weights and what dropout leaves of them share a scale, whichever cells are dropped.
        kept = trace.limits("weights")[1] / (1 - trace.spec.dropout) if "dropped" in trace else 0
        farthest = max(1.0, farthest, kept)
    return ColourScale(map_, chosen.curve, limits, 0.0, farthest or 1.0)


def _typed(chosen: ColourOptions, stage: Stage, is_signed: bool) -> tuple[float, float] | None:
    """Give the ends that were typed; where 0 is not in the middle, none of them is below it.

    They may have been typed while there were numbers below 0.
    """
    ends = chosen.ends(stage.name)
    if ends is None or is_signed:
        return ends
    low, high = max(ends[0], 0.0), ends[1]
    return (low, high) if low < high else None


def _ends_of(shown: tuple[CachedTensor, ...]) -> tuple[float, float]:
    lows, highs = zip(*(one.limits() for one in shown), strict=True)
    return min(lows), max(highs)


def change_colour(
    held: CachedTensor, chosen: ColourOptions, size: float, largest: float
) -> ColourScale:
    """Choose the colours of a difference: 0 is in the middle, whatever numbers there are.

    Parameters
    ----------
    size : float
        The largest of the numbers that were compared: what is lost in their rounding is no change.
    largest : float
        The size of the panel's own largest difference, for limits by panel.
    """
    limits = (
        chosen.limits
        if chosen.limits in {ColourLimits.ROW, ColourLimits.PANEL}
        else ColourLimits.SHARED
    )
    farthest = largest if limits is ColourLimits.PANEL else max(map(abs, held.limits()))
    end = max(farthest, ROUNDING * size) or 1.0
    return ColourScale(chosen.diverging, chosen.curve, limits, -end, end)


def _limits(trace: Trace, stage: Stage, chosen: ColourOptions, is_signed: bool) -> ColourLimits:
    if chosen.limits is not ColourLimits.AUTO:
        return chosen.limits
    is_short = max(trace.sides) <= SHORT or chosen.curve is not ColourCurve.LINEAR
    return ColourLimits.SHARED if is_signed or is_short else ColourLimits.ROW


def beyond(
    values: np.ndarray, marks: Iterable[np.ndarray | None], colour: ColourScale
) -> tuple[np.ndarray, np.ndarray] | None:
    """Say which numbers are below and above typed ends; None where there are no such ends.

    Parameters
    ----------
    marks : iterable of numpy.ndarray or None
        Boolean: cells that are no number of the scale.
    """
    if colour.limits is not ColourLimits.TYPED or colour.curve is ColourCurve.RANK:
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
