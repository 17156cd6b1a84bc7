"""The colour scale of a panel: colour map, curve, and the values at the two ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.display_transforms import WeightTransform
from visualizer.heatmap.colour_range import (
    SHARE_ROUNDING_TOLERANCE,
    end_with_tolerance,
    find_cached_range,
)
from visualizer.session.comparison import ROUNDING_TOLERANCE
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.session.view_options import ColourOptions


class ColourScale(Struct, frozen=True):
    """The colour map, curve and ends of a panel.

    Parameters
    ----------
    limits : ColourLimits
        The resolved limits; shared if they are from 0 to 1.
    low, high : float
        The values at the two ends; for a scale by row, these are bounds for all rows.
    is_exceeded : bool
        Whether numbers lie beyond automatic limits.
    """

    map: str
    curve: ColourCurve
    limits: ColourLimits
    low: float
    high: float
    is_exceeded: bool = False

    @property
    def is_signed(self) -> bool:
        """Whether 0 is in the middle of the scale."""
        return self.low < 0


def choose_colour_scale(
    shown: Sequence[tuple[Trace, CachedTensor]],
    stage: Stage,
    lens: WeightTransform,
    chosen: ColourOptions,
    leadings: Sequence[LeadingIndex],
    largest: float | None = None,
) -> ColourScale:
    """Choose the colour scale of a panel.

    Parameters
    ----------
    shown : sequence of (Trace, CachedTensor)
        The drawn tensor, which is the stage or derived from it, and those that are drawn next to it
        on the same scale; each with its trace.
    leadings : sequence of tuple of int
        The layers and texts that share automatic limits.
    largest : float, optional
        The panel's largest magnitude, for limits by panel.
    """
    tensors = tuple(tensor for _, tensor in shown)
    is_signed = not stage.is_weights or _value_range(tensors)[0] < 0
    limits = ColourLimits.SHARED if chosen.limits is ColourLimits.UNIT else chosen.limits
    map_ = chosen.diverging if is_signed else chosen.sequential
    if limits is ColourLimits.AUTO:
        name = stage.name if stage.is_weights else ""
        is_share = not is_signed and lens is not WeightTransform.TIMES_VALUE
        found = find_cached_range(shown, leadings, name, is_share)
        low = -found.end if is_signed else 0.0
        return ColourScale(map_, chosen.curve, limits, low, found.end, found.is_exceeded)
    farthest = max(map(abs, _value_range(tensors)))
    typed = _typed_ends(chosen, stage, is_signed) if limits is ColourLimits.TYPED else None
    if limits is ColourLimits.TYPED and typed is None:
        limits = ColourLimits.SHARED
    if limits is ColourLimits.PANEL and largest is not None:
        farthest = largest
    if is_signed:
        end = max(map(abs, typed)) if typed else farthest
        return ColourScale(map_, chosen.curve, limits, -(end or 1.0), end or 1.0)
    if typed:
        return ColourScale(map_, chosen.curve, limits, *typed)
    if chosen.limits is ColourLimits.UNIT and lens is not WeightTransform.TIMES_VALUE:
        farthest = _max_possible_weight(shown, farthest)
    return ColourScale(map_, chosen.curve, limits, 0.0, farthest or 1.0)


def _max_possible_weight(shown: Sequence[tuple[Trace, CachedTensor]], farthest: float) -> float:
    """Return the largest possible weight: 1, or 1 scaled up by dropout.

    Values read from a file may be larger.
    """
    rates = [
        trace.spec.dropout
        for trace, tensor in shown
        if trace.dropout_stage_name
        and tensor is trace.cached_stage_tensor(trace.dropout_stage_name)
    ]
    end = 1 / (1 - max(rates, default=0.0))
    return end if farthest <= end * (1 + SHARE_ROUNDING_TOLERANCE) else farthest


def _typed_ends(chosen: ColourOptions, stage: Stage, is_signed: bool) -> tuple[float, float] | None:
    """Return the entered ends, clipped at 0 on an unsigned scale, or None if nothing is left.

    They may have been entered for a signed scale.
    """
    ends = chosen.entered_limits(stage.name)
    if ends is None or is_signed:
        return ends
    low, high = max(ends[0], 0.0), ends[1]
    return (low, high) if low < high else None


def _value_range(shown: tuple[CachedTensor, ...]) -> tuple[float, float]:
    lows, highs = zip(*(one.limits() for one in shown), strict=True)
    return min(lows), max(highs)


def choose_difference_scale(
    tensor: CachedTensor,
    chosen: ColourOptions,
    leadings: Sequence[LeadingIndex],
    size: float,
    largest: float,
) -> ColourScale:
    """Choose the colour scale of a difference, centred at 0.

    Automatic limits are computed from the numbers that have changed.

    Parameters
    ----------
    leadings : sequence of tuple of int
        The layers and texts that share automatic limits.
    size : float
        The largest of the compared values; differences within its rounding error do not count as
        changes.
    largest : float
        The magnitude of the panel's largest difference, for limits by panel.
    """
    same = {ColourLimits.AUTO, ColourLimits.ROW, ColourLimits.PANEL}
    limits = chosen.limits if chosen.limits in same else ColourLimits.SHARED
    rounding, is_exceeded = ROUNDING_TOLERANCE * size, False
    farthest = largest if limits is ColourLimits.PANEL else max(map(abs, tensor.limits()))
    if limits is ColourLimits.AUTO:
        found = find_cached_range([(None, tensor)], leadings, smallest=rounding)
        farthest, is_exceeded = found.end, found.is_exceeded
    end = max(farthest, rounding) or 1.0
    return ColourScale(chosen.diverging, chosen.curve, limits, -end, end, is_exceeded)


def out_of_range_masks(
    values: np.ndarray, marks: Iterable[np.ndarray | None], colour: ColourScale
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the masks of the values below and above the ends, or None if there can be none.

    Parameters
    ----------
    marks : iterable of numpy.ndarray or None
        Boolean: cells without a value on the scale.
    """
    can_exceed = colour.limits in {ColourLimits.AUTO, ColourLimits.TYPED}
    if not can_exceed or colour.curve is ColourCurve.RANK:
        return None
    counts = on_scale_mask(values, marks)
    holds = np.finfo(values.dtype)  # rounded to this type, 0.6 is not above 0.6
    ends = colour.low, end_with_tolerance(colour.high)
    low, high = np.clip(ends, holds.min, holds.max).astype(values.dtype)
    return counts & (values < low), counts & (values > high)


def on_scale_mask(values: np.ndarray, marks: Iterable[np.ndarray | None]) -> np.ndarray:
    """Return the mask of cells with a value on the scale: finite and without a mark."""
    counts: np.ndarray = np.isfinite(values)
    for mark in marks:
        if mark is not None:
            counts &= ~mark
    return counts
