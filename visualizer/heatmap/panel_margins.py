"""The space that the parts around a panel's cells need: labels, row sums, colour bar and notes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from visualizer.heatmap.panel_and_board_types import POOLED, pooling_note
from visualizer.heatmap.value_to_colour_mapping import LOG_SPAN
from visualizer.number_format import format_number
from visualizer.session.colour_options import ColourCurve, ColourLimits
from visualizer.widgets.fonts import metrics, system_font, text_scale

if TYPE_CHECKING:
    from visualizer.heatmap.panel_and_board_types import Axis, Heatmap
    from visualizer.heatmap.panel_colour_scale import ColourScale

NARROWEST = 72
MAX_LABEL_PX = 88
HEAD = 42
"""The height of a column's head: its title, and its colour scale below."""
NOTE = 16
"""The height of a line of notes."""
COMPACT = 150
"""A signed scale in less room than this says its end once: ±2.08."""
RAMP = 28
"""The width of the shortest colour ramp."""
HEAD_MARK = 13
"""The width of the mark in a head's colour, with its air."""
BETWEEN = 5
"""Between a colour ramp and the numbers at its ends."""


def foot_height(heatmap: Heatmap, notes: int = 0) -> float:
    """Give the height under a panel's cells: its own ends of the scale, and its own notes.

    Parameters
    ----------
    notes : int
        How many of its notes its column does not share.
    """
    is_own = heatmap.layer is None and heatmap.colour.limits is ColourLimits.PANEL
    return (4 + NOTE * (notes + is_own)) * text_scale()


def notes_height(heatmap: Heatmap) -> float:
    """Give the height of the notes and the layer's name above a layer's panel."""
    return 16 * max(1, len(heatmap.notes)) * text_scale()


def narrowest(heatmap: Heatmap) -> float:
    """Give the width that a column's head needs: its title, its scale and its notes.

    A layer's panel has no scale of its own, and its notes are elided: only its title counts.
    """
    title = heatmap.title
    if heatmap.layer is not None:
        return _measured(title, system_font()) * 1.3 + 20 * text_scale()
    axes = (heatmap.rows, heatmap.columns)
    blocks = tuple(
        -(-len(axis.labels) // drawn) for axis, drawn in zip(axes, heatmap.side, strict=True)
    )
    shown = (heatmap.colour, heatmap.unit, title, heatmap.stage)
    return _narrowest(shown, heatmap.notes, blocks, system_font())


@lru_cache(maxsize=256)
def _narrowest(
    shown: tuple[ColourScale, str, str, str],
    notes: tuple[str, ...],
    blocks: tuple[int, ...],
    system: str,
) -> float:
    # Every frame asks for that of every panel, to know whether its place is another.
    colour, _, title, _ = shown
    if max(blocks) > 1:
        # The note on the pooling of the whole panel needs its room where one looks closer, too:
        # what is under the pointer must not move.
        notes = (*notes, pooling_note(colour.is_signed, *blocks))
    ends = _compact(_scale_texts(*shown), colour.is_signed)
    scale = RAMP * text_scale() + sum(_line_width(text) for text in ends if text)
    wide = _measured(title, system) * 1.3 + 8
    short = (note.removeprefix(POOLED) for note in notes)
    return max(NARROWEST * text_scale(), wide, scale, *map(_line_width, short))


def fitting_note(note: str, width: float) -> str:
    """Shorten a note by what can be understood without, where there is no room for it."""
    return note if _line_width(note) <= width else note.removeprefix(POOLED)


def line_title_width(heatmap: Heatmap) -> float:
    """Give the width of a panel's title in one line with the end of its scale."""
    title = _measured(heatmap.title, system_font()) * 1.1
    return title + 8 * text_scale() + _line_width(scale_end(heatmap))


def sheet_title_width(heatmap: Heatmap) -> float:
    """Give the width of the title of a panel that is laid over others, with what stands beside."""
    title = _measured(heatmap.title, system_font()) * 1.3
    return title + 16 * text_scale() + _line_width(sheet_words(heatmap))


def sheet_words(heatmap: Heatmap) -> str:
    """Say whose panel is laid over the others, and how to be rid of it."""
    return " · ".join(part for part in (heatmap.label.lower(), "Esc") if part)


def scale_end(heatmap: Heatmap) -> str:
    """Format what a scale says in one line with the title."""
    low, high = compact_scale(heatmap)
    return f"{low} to {high}" if low else high


def compact_scale(heatmap: Heatmap) -> tuple[str, str]:
    """Format the texts before and after a column's ramp where there is little room."""
    return _compact(scale_texts(heatmap), heatmap.colour.is_signed)


def _compact(texts: tuple[str, str], is_signed: bool) -> tuple[str, str]:
    return ("", f"±{texts[1]}") if is_signed else texts


def scale_texts(heatmap: Heatmap) -> tuple[str, str]:
    """Format the texts before and after a column's ramp.

    After it stands also what the title does not say: another unit, or a curve.
    """
    return _scale_texts(heatmap.colour, heatmap.unit, heatmap.title, heatmap.stage)


@lru_cache(maxsize=256)
def _scale_texts(colour: ColourScale, unit: str, title: str, stage: str) -> tuple[str, str]:
    # Every frame asks for those of every panel, to know whether its place is another.
    low, _, high = _written_ends(colour, unit)
    if colour.limits is ColourLimits.PANEL:
        low, high = ("−largest" if colour.is_signed else "0"), "largest"
    words = [high]
    if unit not in {title.lower(), stage}:
        words.append(unit)
    if colour.curve is not ColourCurve.LINEAR:
        words.append(str(colour.curve))
    return low, "  ".join(words)


def _line_width(text: str) -> float:
    return _measured(text, system_font()) + 8


@lru_cache(maxsize=512)
def _measured(text: str, system: str) -> float:
    return metrics(12).horizontalAdvance(text)


def limit_texts(heatmap: Heatmap) -> tuple[str, str, str]:
    """Format the texts under a colour bar: at its low end, middle and high end."""
    return _written_ends(heatmap.colour, heatmap.unit)


def _written_ends(colour: ColourScale, unit: str) -> tuple[str, str, str]:
    low, high = _ends(colour)
    return low, unit + ("" if colour.curve is ColourCurve.LINEAR else f", {colour.curve}"), high


def _ends(colour: ColourScale) -> tuple[str, str]:
    whose = "row’s " if colour.limits is ColourLimits.ROW else ""
    if colour.curve is ColourCurve.RANK:
        return (f"−{whose}largest" if colour.is_signed else "smallest"), f"{whose}largest"
    high = f"{whose}largest" if whose else format_number(colour.high, 2)
    if colour.is_signed:
        return f"−{high}", high
    if colour.curve is ColourCurve.LOG:
        return (f"≤1/{1 / LOG_SPAN:,.0f}" if whose else f"≤{_lowest(colour)}"), high
    return ("0" if colour.low == 0 else format_number(colour.low, 2)), high


def _lowest(colour: ColourScale) -> str:
    return format_number(max(colour.low, colour.high * LOG_SPAN))


def label_overhang(cell: float, line: float | None = None) -> float:
    """Give how far the label of the first row reaches above its cell, where cells are small.

    Parameters
    ----------
    line : float, optional
        The height of a line, where it is known already.
    """
    return max(0.0, ((metrics(12).height() if line is None else line) - cell) / 2)


def sums_width(heatmap: Heatmap) -> float:
    """Give the width of the row sums beside a panel."""
    return 0 if heatmap.sums is None else 60 * text_scale()


def is_upright(widest: float, cell: float, line: float | None = None) -> bool:
    """Whether column labels of tokens are upright, as they do not fit side by side.

    Single characters never are, as that saves no room.
    """
    return widest > max(cell - 4, metrics(12).height() if line is None else line)


def label_height(
    widest: float, is_token: bool, cell: float, longest: float, line: float | None = None
) -> float:
    """Give the height that column labels need.

    Parameters
    ----------
    widest, longest : float
        The width of the widest label, and that to which labels are shortened.
    line : float, optional
        The height of a line, where it is known already.
    """
    if line is None:
        line = metrics(12).height()
    return max(line, min(widest, longest)) if is_token and is_upright(widest, cell, line) else line


def short_head_label(heatmap: Heatmap) -> str:
    """Give the label of a head where there is little room: its number."""
    last = heatmap.label.split()[-1:]
    return last[0] if last and last[0].isdigit() else heatmap.label


def head_label_width(heatmap: Heatmap, is_short: bool) -> float:
    """Give the width of the line that says whose a panel is, with the mark of its head."""
    if not heatmap.label:
        return 0.0
    text = short_head_label(heatmap) if is_short else heatmap.label
    mark = HEAD_MARK * text_scale() if heatmap.head is not None else 0.0
    return mark + _measured(text, system_font()) * 1.1


def widest_label(labels: tuple[str, ...]) -> float:
    """Give the width of the widest of the first labels; the others are elided if needed."""
    return _widest(labels[:FIRST_LABELS], system_font())


def widest_row_label(axis: Axis) -> float:
    """Give the width of the widest label of rows: of many tokens, their places are written."""
    count = len(axis.labels)
    has_places = axis.is_token and count >= FEWEST_PLACES
    place = _widest((f"{count:,}",), system_font()) if has_places else 0.0
    return max(widest_label(axis.labels), place)


FEWEST_PLACES = 100
"""Of fewer tokens, places take no more room than there always is."""
FIRST_LABELS = 200
"""So many are measured; to compare those of a long text would take longer than to measure these."""


@lru_cache(maxsize=32)
def _widest(labels: tuple[str, ...], system: str) -> float:
    return max((metrics(12).horizontalAdvance(label) for label in labels), default=0)
