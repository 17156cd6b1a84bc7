"""The colour scale of a panel: its colour map, its curve, and the values at its two ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.display_transforms import WeightTransform
from visualizer.session.comparison import ROUNDING_TOLERANCE
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.session.view_options import ColourOptions

# In a longer text, nearly all weights are so small that they look the same on a scale up to 1.
MIN_PERCENTILE_TOKENS = 24
SHARE_ROUNDING_TOLERANCE = 1e-3
"""Relative amount by which rounding to 16 bits may lift a share of 1 above 1."""


class ColourScale(Struct, frozen=True):
    """The colour map, curve and ends of a panel.

    Parameters
    ----------
    limits : ColourLimits
        The resolved limits; never automatic, and shared if they are from 0 to 1.
    low, high : float
        The values at the two ends; for a scale by row, bounds of all rows.
    """

    map: str
    curve: ColourCurve
    limits: ColourLimits
    low: float
    high: float

    @property
    def is_signed(self) -> bool:
        """Whether 0 is the middle of the scale."""
        return self.low < 0


def choose_colour_scale(
    trace: Trace,
    stage: Stage,
    tensor: CachedTensor,
    lens: WeightTransform,
    chosen: ColourOptions,
    largest: float | None = None,
    beside: tuple[CachedTensor, ...] = (),
) -> ColourScale:
    """Choose the colour scale of a panel.

    Parameters
    ----------
    tensor : CachedTensor
        The drawn tensor: the stage, or a tensor derived from it.
    largest : float, optional
        The panel's largest magnitude, for limits by panel.
    beside : tuple of CachedTensor
        Tensors that are drawn next to this one on the same scale.
    """
    low, high = _value_range((tensor, *beside))
    is_signed = low < 0 or not stage.is_weights
    limits = _resolve_limits(trace, stage, chosen, is_signed)
    farthest = max(abs(low), abs(high))
    typed = _typed_ends(chosen, stage, is_signed) if limits is ColourLimits.TYPED else None
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
    is_to_one = chosen.limits in {ColourLimits.AUTO, ColourLimits.UNIT}
    if is_to_one and lens is not WeightTransform.TIMES_VALUE:
        farthest = _max_possible_weight(trace, (tensor, *beside), farthest)
    return ColourScale(map_, chosen.curve, limits, 0.0, farthest or 1.0)


def _max_possible_weight(trace: Trace, shown: tuple[CachedTensor, ...], farthest: float) -> float:
    """Return the largest possible weight: 1, or 1 scaled up by dropout.

    Values read from a file may be larger.
    """
    dropped = trace.cached_stage(trace.dropout_stage) if trace.dropout_stage else None
    end = 1 / (1 - trace.spec.dropout) if any(one is dropped for one in shown) else 1.0
    return end if farthest <= end * (1 + SHARE_ROUNDING_TOLERANCE) else farthest


def _typed_ends(chosen: ColourOptions, stage: Stage, is_signed: bool) -> tuple[float, float] | None:
    """Return the typed ends, clipped at 0 on an unsigned scale; None if nothing is left.

    They may have been typed for a signed scale.
    """
    ends = chosen.ends(stage.name)
    if ends is None or is_signed:
        return ends
    low, high = max(ends[0], 0.0), ends[1]
    return (low, high) if low < high else None


def _value_range(shown: tuple[CachedTensor, ...]) -> tuple[float, float]:
    lows, highs = zip(*(one.limits() for one in shown), strict=True)
    return min(lows), max(highs)


def choose_difference_scale(
    tensor: CachedTensor, chosen: ColourOptions, size: float, largest: float
) -> ColourScale:
    """Choose the colour scale of a difference, centred at 0.

    Parameters
    ----------
    size : float
        The largest of the compared values; differences within the rounding error of these values
        are not changes.
    largest : float
        The magnitude of the panel's largest difference, for limits by panel.
    """
    limits = (
        chosen.limits
        if chosen.limits in {ColourLimits.ROW, ColourLimits.PANEL}
        else ColourLimits.SHARED
    )
    farthest = largest if limits is ColourLimits.PANEL else max(map(abs, tensor.limits()))
    end = max(farthest, ROUNDING_TOLERANCE * size) or 1.0
    return ColourScale(chosen.diverging, chosen.curve, limits, -end, end)


def _resolve_limits(
    trace: Trace, stage: Stage, chosen: ColourOptions, is_signed: bool
) -> ColourLimits:
    if chosen.limits is ColourLimits.UNIT:
        return ColourLimits.SHARED
    if chosen.limits is not ColourLimits.AUTO:
        return chosen.limits
    is_short = max(trace.sides) <= MIN_PERCENTILE_TOKENS or chosen.curve is not ColourCurve.LINEAR
    return ColourLimits.SHARED if is_signed or is_short else ColourLimits.ROW


def limit_masks(
    values: np.ndarray, marks: Iterable[np.ndarray | None], colour: ColourScale
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the masks of values below and above typed ends; None without typed ends.

    Parameters
    ----------
    marks : iterable of numpy.ndarray or None
        Boolean: cells without a value on the scale.
    """
    if colour.limits is not ColourLimits.TYPED or colour.curve is ColourCurve.RANK:
        return None
    counts = is_on_scale(values, marks)
    holds = np.finfo(values.dtype)  # rounded to this type, 0.6 is not above 0.6
    low, high = np.clip((colour.low, colour.high), holds.min, holds.max).astype(values.dtype)
    return counts & (values < low), counts & (values > high)


def is_on_scale(values: np.ndarray, marks: Iterable[np.ndarray | None]) -> np.ndarray:
    """Return the mask of cells with a value on the scale: finite and without a mark."""
    counts: np.ndarray = np.isfinite(values)
    for mark in marks:
        if mark is not None:
            counts &= ~mark
    return counts
