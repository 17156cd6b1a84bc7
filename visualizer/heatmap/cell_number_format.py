"""How numbers are written in cells: with as many decimals as fit, alike in all heads of a stage."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.heatmap.panel_colour_scale import counted
from visualizer.number_format import format_number
from visualizer.widgets.fonts import metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.heatmap.panel_and_board_types import Heatmap

MAX_DECIMALS = 4
"""As many as the book prints; only with so many are exponents written."""
SMALLEST_PX, MAX_FONT_PX = 9, 18
"""Sizes of the font at the usual size of text."""
AIR_PX = 2
"""Between a number and each side of its cell, so that neighbours never touch."""
SHARE_OF_CELL = 0.82
"""How much of its cell's width the widest number takes, where that is not too large."""
MEASURED_PX = 12
MIN_TWO_DECIMAL_VALUE = 0.005
SMALLEST = 9e-30
"""As long as any number with one figure; what is smaller is hardly met."""
MAX_PLAIN_VALUE = 99_999.0
"""The largest number without an exponent."""


class CellNumberFormat(Struct, frozen=True):
    """How the numbers of a stage are written.

    Parameters
    ----------
    decimals : int
        From 4, with exponents for what has no figure among them, down to 0.
    drops_zero : bool
        Whether numbers between 0 and 1 are written without the zero: .16.
    has_one_figure : bool
        Whether one figure and an exponent are written: 7e-6.
    pixel_size : int
        The size of the font.
    """

    decimals: int
    drops_zero: bool = False
    has_one_figure: bool = False
    pixel_size: int = SMALLEST_PX

    def write(self, value: float) -> str:
        """Write a number; what rounds to 0 has no minus."""
        if self.decimals == MAX_DECIMALS or not math.isfinite(value):
            return format_number(value)
        if self.has_one_figure:
            return (
                f"{value:.0e}".replace("e-0", "e-").replace("-", "−", value < 0) if value else "0"
            )
        written = f"{abs(value):.{self.decimals}f}"
        if self.drops_zero:
            return written.removeprefix("0") if abs(value) < 1 - 10**-self.decimals / 2 else "1.0"
        return f"−{written}" if value < 0 and written.strip("0.") else written


class NumberRange(Struct, frozen=True):
    """What is written in the cells of a stage's panels.

    Parameters
    ----------
    low, high : float
        The smallest and largest number.
    has_exponents : bool
        Whether one of them would need an exponent, as it has no figure among four decimals.
    is_share : bool
        Whether all are shares of a row, from 0 to 1.
    """

    low: float
    high: float
    has_exponents: bool
    is_share: bool

    @property
    def farthest(self) -> float:
        """The size of the number that is farthest from 0."""
        return max(abs(self.low), abs(self.high))


def cell_number_format(
    panels: Sequence[Heatmap], width: float, height: float
) -> CellNumberFormat | None:
    """Choose how to write the numbers of a stage's panels; None where none would be readable.

    Parameters
    ----------
    panels : sequence of Heatmap
        All panels of the stage, so that its heads can be compared.
    width, height : float
        The size of their smallest cell.
    """
    narrowest = _width(CellNumberFormat(0), 100) * SMALLEST_PX + 2 * AIR_PX
    is_pooled = any(one.is_pooled for one in panels)
    found = None if is_pooled or width < narrowest else number_range(panels)
    if found is None:
        return None
    rungs = [(one, _widest(one, found)) for one in _rungs(found)]
    # Where no number is as large as other text, the shortest are better than none.
    ways = [*((*one, _smallest()) for one in rungs), *((*one, SMALLEST_PX) for one in rungs[::-1])]
    return next((sized for way in ways if (sized := _sized(*way, width, height))), None)


def number_range(panels: Sequence[Heatmap]) -> NumberRange | None:
    """Give what is written in panels; None where there is no number."""
    numbers = [one.values[counted(one.values, one.marks)] for one in panels]
    written = np.concatenate(numbers)
    if not written.size:
        return None
    low, high, sizes = float(written.min()), float(written.max()), np.abs(written)
    is_tiny = (sizes > 0) & (sizes < 0.5 * 10**-MAX_DECIMALS)
    is_share = all(one.is_share for one in panels) and low >= 0 and high <= 1 + 1e-6
    return NumberRange(low, high, bool(is_tiny.any()), is_share)


def _rungs(found: NumberRange) -> Iterator[CellNumberFormat]:
    """Give the ways to write, the best first; never one in which all numbers would be 0."""
    fewest = 2 if found.farthest < 10 else 1 if found.farthest < 100 else 0
    for decimals in range(MAX_DECIMALS, fewest - 1, -1):
        if decimals == MAX_DECIMALS or found.farthest >= 5 * 10**-decimals or not found.farthest:
            yield CellNumberFormat(decimals)
    if found.farthest and found.farthest < MIN_TWO_DECIMAL_VALUE:
        yield CellNumberFormat(0, has_one_figure=True)
    elif found.is_share:
        yield CellNumberFormat(2, drops_zero=True)


def _widest(one: CellNumberFormat, found: NumberRange) -> float:
    """Measure the widest of the numbers, with the minus where there is one."""
    written = [found.low, found.high]
    if one.has_one_figure:
        return _width(one, math.copysign(SMALLEST, found.low))
    if one.decimals == MAX_DECIMALS:
        # What is larger has an exponent, and may be shorter than others that have none.
        written = [max(-MAX_PLAIN_VALUE, min(end, MAX_PLAIN_VALUE)) for end in written]
        if found.has_exponents:
            written.append(math.copysign(1e-7, found.low))
    return max(_width(one, value) for value in written)


def _width(one: CellNumberFormat, value: float) -> float:
    """Measure a number in a font of one pixel."""
    return metrics(MEASURED_PX).horizontalAdvance(one.write(value)) / _scaled_px()


def _smallest() -> int:
    return round(SMALLEST_PX * text_scale())


def _scaled_px() -> float:
    return round(MEASURED_PX * text_scale())


def _sized(
    one: CellNumberFormat, widest: float, smallest: int, width: float, height: float
) -> CellNumberFormat | None:
    """Give the format in the size that its cells have room for; None where they have none.

    Parameters
    ----------
    widest : float
        The width of the widest number in a font of one pixel.
    smallest : int
        The smallest size of the font, in pixels.
    """
    if widest * smallest + 2 * AIR_PX > width or height < smallest + AIR_PX:
        return None
    size = min(
        MAX_FONT_PX * text_scale(),
        SHARE_OF_CELL * width / widest,
        SHARE_OF_CELL * (height - AIR_PX),
    )
    return replace(one, pixel_size=max(smallest, int(size)))
