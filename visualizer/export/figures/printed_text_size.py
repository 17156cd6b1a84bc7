"""Checks the printed size of the smallest text in a figure, and finds settings that enlarge it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.export.figure_settings import MAX_POINTS, MAX_SIDE_MM, MIN_POINTS, PIXELS_PER_INCH
from visualizer.export.figures.figure_page import create_figure_content, fits_at_scale, lay_out_page
from visualizer.heatmap.panel_margins_paint import LABEL, label_font_size
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.export_snapshot import ExportSnapshot

MIN_READABLE_POINTS = 5.0
"""Text size, in points, below which a warning is shown."""
_POINTS_PER_INCH = 72
_SIZE_STEP, _MAX_ATTEMPTS = 1.1, 12


class SmallTextWarning(Struct, frozen=True):
    """Text of a figure that is too small to read comfortably on paper.

    Parameters
    ----------
    points : float
        Size of the smallest text.
    changes : dict of str to object
        Changes to the figure settings that make the text readable; may be empty.
    """

    points: float
    changes: dict[str, Any]

    @property
    def is_too_small(self) -> bool:
        """Whether the text is so small that the figure is not written."""
        return self.points < MIN_POINTS

    @property
    def size_message(self) -> str:
        """The size of the smallest text, as a sentence."""
        size = math.floor(self.points * 10) / 10
        end = ", which is too small for print" if self.is_too_small else ""
        return f"The smallest text would be {size:g} pt{end}."

    @property
    def advice_message(self) -> str:
        """The size of the smallest text and a suggested change, for messages without a button."""
        width, points = self.changes.get("width_mm"), self.changes.get("points")
        if width is not None:
            height = " and an automatic height" if "height_mm" in self.changes else ""
            return f"{self.size_message} Use a width of {width:g} mm{height}."
        if points is not None:
            return f"{self.size_message} Use a text size of {points:g} pt."
        return f"{self.size_message} Show fewer panels."


def check_text_size(
    page: FigurePage, snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> str:
    """Return a warning if text on a page is small, or "" if all text is readable.

    Raises
    ------
    InputError
        With field ``size`` if the text is too small to print.
    """
    small = find_small_text(page, snapshot, figure_settings)
    if small and small.is_too_small:
        raise InputError("size", small.advice_message)
    return small.advice_message if small else ""


def find_small_text(
    page: FigurePage, snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> SmallTextWarning | None:
    """Return a warning if text on a page is small, or None if all text is readable."""
    points = _smallest_text_points(page)
    if points >= MIN_READABLE_POINTS:
        return None
    return SmallTextWarning(
        points, _find_enlarging_changes(page, points, snapshot, figure_settings)
    )


def _smallest_text_points(page: FigurePage) -> float:
    return _smallest_text_px(page) * page.scale * _POINTS_PER_INCH / PIXELS_PER_INCH


def _unscaled_text_points(page: FigurePage, figure_settings: FigureSettings) -> float:
    """Return the size that the smallest text would have if nothing were scaled down, in points."""
    return _smallest_text_px(page) * figure_settings.scale * _POINTS_PER_INCH / PIXELS_PER_INCH


def _smallest_text_px(page: FigurePage) -> float:
    slots = page.layout.slots
    numbers = [slot.numbers.pixel_size for slot in slots if slot.numbers]
    labels = [
        label_font_size(axis, cell) * text_scale()
        for slot in slots
        for axis, cell in (
            (slot.heatmap.rows, slot.cell_height),
            (slot.heatmap.columns, slot.cell_width),
        )
    ]
    return min(LABEL * text_scale(), *labels, *numbers)


def _find_enlarging_changes(
    page: FigurePage, points: float, snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> dict[str, Any]:
    """Find the first change that makes the smallest text readable."""
    for changes in _candidate_changes(page, MIN_READABLE_POINTS / points, figure_settings):
        changed = replace(figure_settings, **changes)
        if not fits_at_scale(
            page.figure,
            changed,
            min(1.0, MIN_READABLE_POINTS / _unscaled_text_points(page, changed)),
        ):
            continue
        # The content may be pooled to fit the new size, so lay it out again.
        if (
            _smallest_text_points(lay_out_page(create_figure_content(snapshot, changed), changed))
            >= MIN_READABLE_POINTS
        ):
            return changes
    return {}


def _candidate_changes(
    page: FigurePage, missing: float, figure_settings: FigureSettings
) -> Iterator[dict[str, Any]]:
    """Yield changes to larger widths or, if nothing was scaled down, to larger text sizes."""
    factors = [missing * _SIZE_STEP**step for step in range(_MAX_ATTEMPTS)]
    if page.scale >= figure_settings.scale:
        for factor in factors:
            points = math.ceil(figure_settings.points * factor * 2) / 2
            if points <= MAX_POINTS:
                yield {"points": points}
        return
    heights: tuple[dict[str, Any], ...] = ({},)
    if figure_settings.height_mm is not None:
        heights = ({}, {"height_mm": None})
    for height in heights:
        for factor in factors:
            width = float(math.ceil(figure_settings.width_mm * factor))
            if width <= MAX_SIDE_MM:
                yield {"width_mm": width, **height}
