"""Number format of cells: as many decimals as fit; all heads of a stage share a format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.format import format_number
from visualizer.heatmap.panel_colour_scale import on_scale_mask
from visualizer.widgets.fonts import font_metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.heatmap.board import Heatmap

MAX_DECIMALS = 4
"""Maximum number of decimals, as in the book; only formats with this number use exponents."""
SMALLEST_PX, MAX_FONT_PX = 9, 18
"""Smallest and largest font size in pixels, at the default text size."""
LARGE_TEXT_SCALE, PROJECTED_PX = 1.4, 15.6
"""Text scale from which large digits are preferred to more of them, and their size at scale 1.

In presenter mode, numbers have 24 pixels, which can be read from the last row of a lecture hall.
"""
NUMBER_MARGIN_PX = 2
"""Space between a number and each side of its cell, so that neighbours never touch."""
MAX_CELL_WIDTH_SHARE = 0.82
"""Maximum share of a cell's width for the widest number, unless the font has its minimum size."""
MEASURING_FONT_PX = 12
MIN_TWO_DECIMAL_VALUE = 0.005
MIN_DISPLAYED_VALUE = 9e-30
"""A number as wide as any one-digit number with an exponent; smaller numbers are rare."""
MAX_PLAIN_VALUE = 99_999.0
"""Largest number written without an exponent."""


class CellNumberFormat(Struct, frozen=True):
    """Number format of a stage.

    Parameters
    ----------
    decimals : int
        Number of decimals, from 0 to 4. With 4, numbers that would be written as 0 have an
        exponent.
    omits_leading_zero : bool
        Whether numbers between 0 and 1 are written without the leading zero, as in .16.
    has_one_figure : bool
        Whether numbers are written as one digit and an exponent, as in 7e-6.
    pixel_size : int
        Font size in pixels.
    """

    decimals: int
    omits_leading_zero: bool = False
    has_one_figure: bool = False
    pixel_size: int = SMALLEST_PX

    def format_value(self, value: float) -> str:
        """Format a number; a number that rounds to 0 has no minus sign."""
        if self.decimals == MAX_DECIMALS or not math.isfinite(value):
            return format_number(value, MAX_DECIMALS)
        if self.has_one_figure:
            return (
                f"{value:.0e}".replace("e-0", "e-").replace("-", "−", value < 0) if value else "0"
            )
        written = f"{abs(value):.{self.decimals}f}"
        if self.omits_leading_zero:
            is_below_one = abs(value) < 1 - 10**-self.decimals / 2
            written = written.removeprefix("0") if is_below_one else "1.0"
        return f"−{written}" if value < 0 and written.strip("0.") else written


class NumberRange(Struct, frozen=True):
    """Range of the numbers in the cells of a stage's panels.

    Parameters
    ----------
    low, high : float
        Smallest and largest number.
    has_exponents : bool
        Whether a number needs an exponent, because its first four decimals are 0.
    is_share : bool
        Whether all numbers are shares of a row, from 0 to 1.
    """

    low: float
    high: float
    has_exponents: bool
    is_share: bool

    @property
    def largest_magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


def cell_number_format(
    panels: Sequence[Heatmap], width: float, height: float
) -> CellNumberFormat | None:
    """Choose the number format of a stage's panels; return None if no format is readable.

    Parameters
    ----------
    panels : sequence of Heatmap
        All panels of the stage, so that heads can be compared.
    width, height : float
        Size of the smallest cell.
    """
    narrowest = _measure_number_width(CellNumberFormat(0), 100) * SMALLEST_PX + 2 * NUMBER_MARGIN_PX
    is_pooled = any(one.is_pooled for one in panels)
    found = None if is_pooled or width < narrowest else find_number_range(panels)
    if found is None:
        return None
    formats = list(_candidate_formats(found))
    # If no format fits at the preferred sizes, the shortest format is better than no numbers.
    attempts = [(round(SMALLEST_PX * text_scale()), formats), (SMALLEST_PX, formats[::-1])]
    if text_scale() >= LARGE_TEXT_SCALE:
        attempts.insert(0, (round(PROJECTED_PX * text_scale()), formats))
    for smallest_px, candidates in attempts:
        for one in candidates:
            widest = _measure_widest_number(one, found)
            if fitting := _fit_format_to_cell(one, widest, smallest_px, width, height):
                return fitting
    return None


def find_number_range(panels: Sequence[Heatmap]) -> NumberRange | None:
    """Return the range of the numbers in panels, or None if there are none."""
    numbers = [one.values[on_scale_mask(one.values, one.cell_masks)] for one in panels]
    written = np.concatenate(numbers)
    if not written.size:
        return None
    low, high, sizes = float(written.min()), float(written.max()), np.abs(written)
    is_tiny = (sizes > 0) & (sizes < 0.5 * 10**-MAX_DECIMALS)
    is_share = all(one.is_share for one in panels) and low >= 0 and high <= 1 + 1e-6
    return NumberRange(low, high, bool(is_tiny.any()), is_share)


def _candidate_formats(found: NumberRange) -> Iterator[CellNumberFormat]:
    """Yield the formats, preferred ones first, except those that would write all numbers as 0."""
    most = found.largest_magnitude
    is_below_one = found.is_share or most < 1
    fewest = 2 if is_below_one else 1 if most < 100 else 0
    for decimals in range(MAX_DECIMALS, fewest - 1, -1):
        if decimals == MAX_DECIMALS or most >= 5 * 10**-decimals or not most:
            yield CellNumberFormat(decimals)
    if most and most < MIN_TWO_DECIMAL_VALUE:
        yield CellNumberFormat(0, has_one_figure=True)
    elif is_below_one:
        yield CellNumberFormat(2, omits_leading_zero=True)


def _measure_widest_number(one: CellNumberFormat, found: NumberRange) -> float:
    """Measure the widest number, including its minus sign if it has one."""
    written = [found.low, found.high]
    if one.has_one_figure:
        return _measure_number_width(one, math.copysign(MIN_DISPLAYED_VALUE, found.low))
    if one.decimals == MAX_DECIMALS:
        # Larger numbers have an exponent, and may be shorter than numbers without an exponent.
        written = [max(-MAX_PLAIN_VALUE, min(end, MAX_PLAIN_VALUE)) for end in written]
        if found.has_exponents:
            written.append(math.copysign(1e-7, found.low))
    return max(_measure_number_width(one, value) for value in written)


def _measure_number_width(one: CellNumberFormat, value: float) -> float:
    """Return the width of a number in a font with a size of one pixel."""
    measured_px = round(MEASURING_FONT_PX * text_scale())
    return font_metrics(MEASURING_FONT_PX).horizontalAdvance(one.format_value(value)) / measured_px


def _fit_format_to_cell(
    one: CellNumberFormat, widest: float, smallest: int, width: float, height: float
) -> CellNumberFormat | None:
    """Return the format with the font size that fits the cells, or None if no size fits.

    Parameters
    ----------
    widest : float
        Width of the widest number in a font with a size of one pixel.
    smallest : int
        Minimum font size, in pixels.
    """
    if widest * smallest + 2 * NUMBER_MARGIN_PX > width or height < smallest + NUMBER_MARGIN_PX:
        return None
    size = min(
        MAX_FONT_PX * text_scale(),
        MAX_CELL_WIDTH_SHARE * width / widest,
        MAX_CELL_WIDTH_SHARE * (height - NUMBER_MARGIN_PX),
    )
    return replace(one, pixel_size=max(smallest, int(size)))
