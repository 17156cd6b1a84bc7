"""Space that is required around a panel's cells for labels, row sums, colour bar and notes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from visualizer.format import format_number
from visualizer.heatmap.board import POOLING_PREFIX, describe_pooling
from visualizer.heatmap.colour_mapping import LOG_SPAN
from visualizer.heatmap.colour_range import AutomaticColourRange
from visualizer.session.view_options import ColourCurve, ColourLimits
from visualizer.widgets.fonts import font_metrics, system_font, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QFont

    from visualizer.heatmap.board import Heatmap, HeatmapAxis
    from visualizer.heatmap.panel_colour_scale import ColourScale

MIN_GUTTER_PX = 72
MAX_LABEL_PX = 88
HEAD_HEIGHT_PX = 42
"""Height of a column's head, which consists of its title and the colour scale below it."""
NOTE_HEIGHT_PX = 16
"""Height of a line of notes."""
MAX_COMPACT_WIDTH_PX = 150
"""Width below which a signed scale shows its end only once, for example as ±2.08."""
MIN_RAMP_PX = 28
"""Width of the shortest colour ramp."""
HEAD_MARK_WIDTH_PX = 13
"""Width of the mark in a head's colour, including its margin."""
RAMP_MARGIN_PX = 5
"""Space between a colour ramp and the values at its ends."""


def footer_height(heatmap: Heatmap, notes: int = 0) -> float:
    """Return the height needed below a panel's cells for the ends of its own scale and its notes.

    Parameters
    ----------
    notes : int
        Number of notes that the panel does not share with its column.
    """
    is_own = heatmap.layer is None and heatmap.colour.limits is ColourLimits.PANEL
    return (4 + NOTE_HEIGHT_PX * (notes + is_own)) * text_scale()


def layer_notes_height(heatmap: Heatmap) -> float:
    """Return the height of the layer's name and the notes above a layer's panel."""
    return 16 * max(1, len(heatmap.notes)) * text_scale()


def min_column_header_width(heatmap: Heatmap) -> float:
    """Return the width that a column's head needs for its title, scale and notes.

    A layer's panel has no scale of its own, and its notes are elided, so only its title counts.
    """
    title = heatmap.title
    if heatmap.layer is not None:
        return _measure_text(title, system_font()) * 1.3 + 20 * text_scale()
    axes = (heatmap.rows, heatmap.columns)
    blocks = tuple(
        -(-len(axis.labels) // drawn) for axis, drawn in zip(axes, heatmap.side, strict=True)
    )
    shown = (heatmap.colour, heatmap.unit, title, heatmap.stage)
    return _measure_column_header_width(shown, heatmap.notes, blocks, system_font())


@lru_cache(maxsize=256)
def _measure_column_header_width(
    shown: tuple[ColourScale, str, str, str],
    notes: tuple[str, ...],
    blocks: tuple[int, ...],
    font: QFont,
) -> float:
    # Cached because every frame compares the size of every panel.
    colour, _, title, _ = shown
    if max(blocks) > 1:
        # Even when zoomed in, reserve room for the pooling note of the whole panel: content under
        # the pointer must not move.
        notes = (*notes, describe_pooling(colour.is_signed, *blocks))
    ends = _scale_texts(*shown, is_compact=True)
    scale = MIN_RAMP_PX * text_scale() + sum(_line_width(text) for text in ends if text)
    wide = _measure_text(title, font) * 1.3 + 8
    short = (note.removeprefix(POOLING_PREFIX) for note in notes)
    return max(MIN_GUTTER_PX * text_scale(), wide, scale, *map(_line_width, short))


def shorten_note(note: str, width: float) -> str:
    """Return a note, without its optional prefix if the whole note does not fit."""
    return note if _line_width(note) <= width else note.removeprefix(POOLING_PREFIX)


def panel_title_width(heatmap: Heatmap) -> float:
    """Return the width of a panel's title on the same line as the end of its scale."""
    title = _measure_text(heatmap.title, system_font()) * 1.1
    return title + 8 * text_scale() + _line_width(format_scale_end(heatmap))


def format_scale_end(heatmap: Heatmap) -> str:
    """Format a scale for the same line as the title."""
    low, high = format_compact_scale(heatmap)
    return f"{low} to {high}" if low else high


def format_compact_scale(heatmap: Heatmap) -> tuple[str, str]:
    """Format the texts before and after a column's ramp if there is little room."""
    return _scale_texts(heatmap.colour, heatmap.unit, heatmap.title, heatmap.stage, is_compact=True)


def format_scale(heatmap: Heatmap) -> tuple[str, str]:
    """Format the texts before and after a column's ramp.

    The text after it includes the unit and the curve unless the title implies them.
    """
    return _scale_texts(heatmap.colour, heatmap.unit, heatmap.title, heatmap.stage)


@lru_cache(maxsize=256)
def _scale_texts(
    colour: ColourScale, unit: str, title: str, stage: str, is_compact: bool = False
) -> tuple[str, str]:
    # Cached because every frame compares the size of every panel.
    low, high = _format_ends(colour)
    if colour.limits is ColourLimits.PANEL:
        low, high = ("−largest" if colour.is_signed else "0"), "largest"
    if is_compact and colour.is_signed:
        low, high = "", f"±{high.removeprefix('≥ ')}" + "+" * high.startswith("≥ ")
    words = [high]
    if unit not in {title.lower(), stage}:
        words.append(unit)
    if colour.curve is not ColourCurve.LINEAR:
        words.append(str(colour.curve))
    return low, "  ".join(words)


def _line_width(text: str) -> float:
    return _measure_text(text, system_font()) + 8


@lru_cache(maxsize=512)
def _measure_text(text: str, font: QFont) -> float:
    return font_metrics(12).horizontalAdvance(text)


def format_colour_bar_texts(heatmap: Heatmap) -> tuple[str, str, str]:
    """Format the texts below a colour bar: at the low end, in the middle and at the high end."""
    return _format_colour_bar_texts(heatmap.colour, heatmap.unit)


def _format_colour_bar_texts(colour: ColourScale, unit: str) -> tuple[str, str, str]:
    low, high = _format_ends(colour)
    return low, unit + ("" if colour.curve is ColourCurve.LINEAR else f", {colour.curve}"), high


def _format_ends(colour: ColourScale) -> tuple[str, str]:
    """Format the numbers at the ends; the end colours may also stand for numbers beyond them."""
    prefix = "row’s " if colour.limits is ColourLimits.ROW else ""
    if colour.curve is ColourCurve.RANK:
        return (f"−{prefix}largest" if colour.is_signed else "smallest"), f"{prefix}largest"
    if prefix:
        high = f"{prefix}largest"
    elif colour.limits is ColourLimits.AUTO:
        high = str(AutomaticColourRange(colour.high, colour.is_exceeded))
    else:
        high = format_number(colour.high, 2)
    if colour.is_signed:
        end = high.removesuffix("+")
        return (f"−{end}", end) if end == high else (f"≤ −{end}", f"≥ {end}")
    if colour.curve is ColourCurve.LOG:
        lowest = format_number(max(colour.low, colour.high * LOG_SPAN))
        return (f"≤1/{1 / LOG_SPAN:,.0f}" if prefix else f"≤{lowest}"), high
    return ("0" if colour.low == 0 else format_number(colour.low, 2)), high


def label_overhang(cell: float, line: float | None = None) -> float:
    """Return how far a row's label extends above its cell if cells are lower than the label.

    Parameters
    ----------
    line : float, optional
        The height of a line, if already known.
    """
    return max(0.0, ((font_metrics(12).height() if line is None else line) - cell) / 2)


def row_sums_width(heatmap: Heatmap) -> float:
    """Return the width of the row sums next to a panel."""
    return 0 if heatmap.sums is None else 60 * text_scale()


def has_vertical_labels(widest: float, cell: float, line: float | None = None) -> bool:
    """Return whether column labels of tokens are vertical because they do not fit side by side.

    Single characters are never vertical, because this would not save room.
    """
    return widest > max(cell - 4, font_metrics(12).height() if line is None else line)


def column_label_height(
    widest: float, is_token: bool, cell: float, longest: float, line: float | None = None
) -> float:
    """Return the height that column labels need.

    Parameters
    ----------
    widest, longest : float
        The width of the widest label, and the width to which labels are shortened.
    line : float, optional
        The height of a line, if already known.
    """
    if line is None:
        line = font_metrics(12).height()
    return (
        max(line, min(widest, longest))
        if is_token and has_vertical_labels(widest, cell, line)
        else line
    )


def short_head_label(heatmap: Heatmap) -> str:
    """Return the short label of a head, which is its number."""
    last = heatmap.label.split()[-1:]
    return last[0] if last and last[0].isdigit() else heatmap.label


def head_label_width(heatmap: Heatmap, is_short: bool) -> float:
    """Return the width of a panel's head label, including the head's mark."""
    if not heatmap.label:
        return 0.0
    text = short_head_label(heatmap) if is_short else heatmap.label
    has_mark = heatmap.head is not None and heatmap.layer is None
    mark = HEAD_MARK_WIDTH_PX * text_scale() * has_mark
    return mark + _measure_text(text, system_font()) * 1.1


def widest_label_width(labels: tuple[str, ...]) -> float:
    """Return the width of the widest of the first labels; wider ones are elided."""
    return _measure_widest_label(labels[:MAX_MEASURED_LABELS], system_font())


def widest_row_label_width(axis: HeatmapAxis) -> float:
    """Return the width of the widest row label or, for many tokens, of the widest position."""
    count = len(axis.labels)
    has_places = axis.is_token and count >= MIN_POSITION_TOKENS
    place = _measure_widest_label((f"{count:,}",), system_font()) if has_places else 0.0
    return max(widest_label_width(axis.labels), place)


MIN_POSITION_TOKENS = 100
"""Number of tokens below which position labels fit into the minimum gutter."""
MAX_MEASURED_LABELS = 200
"""Maximum number of labels that are measured.

Comparing all labels of a long text as a cache key would take longer than measuring these.
"""


@lru_cache(maxsize=32)
def _measure_widest_label(labels: tuple[str, ...], font: QFont) -> float:
    return max((font_metrics(12).horizontalAdvance(label) for label in labels), default=0)
