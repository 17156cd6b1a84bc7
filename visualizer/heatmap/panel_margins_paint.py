"""Paints the area around a panel's cells: labels, titles, colour scales and notes."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.attention.stages import axis_noun
from visualizer.heatmap import cell_paint, colour_mapping
from visualizer.heatmap.board_layout import TitlePlacement
from visualizer.heatmap.panel_margins import (
    MAX_COMPACT_WIDTH_PX,
    MIN_RAMP_PX,
    NOTE_HEIGHT_PX,
    RAMP_MARGIN_PX,
    format_colour_bar_texts,
    format_compact_scale,
    format_scale,
    format_scale_end,
    has_vertical_labels,
    head_label_width,
    short_head_label,
    shorten_note,
    widest_label_width,
)
from visualizer.session.view_options import ColourLimits
from visualizer.widgets.fonts import font_metrics, scaled_font, system_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.heatmap.board import Heatmap, HeatmapAxis
    from visualizer.heatmap.board_layout import ColumnHeader, PanelSlot
    from visualizer.widgets.theme import Theme

ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
MAX_RAMP_PX = 144
LETTER_PX = 14
LABEL, SMALL_LABEL, TINY_LABEL = 12, 10, 9
"""Label sizes in pixels."""
MAX_LABEL_OVERHANG_PX = 8
"""Maximum distance by which a position label may extend beyond the panel."""
MIN_LABEL_DENSITY = 8
"""Number of tokens per label above which positions replace labels."""


def paint_labels(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the labels of rows and columns."""
    painter.setPen(QColor(theme.ink))
    heatmap = slot.heatmap
    if slot.has_row_labels:
        size = label_font_size(heatmap.rows, slot.cell_height)
        painter.setFont(scaled_font(size))
        for at, text in visible_labels(heatmap.rows, slot.cell_height):
            painter.drawText(
                row_label_box(slot, at), ALIGN_RIGHT, elide_label(text, slot.longest, size)
            )
    if not slot.has_column_labels:
        return
    size = label_font_size(heatmap.columns, slot.cell_width)
    painter.setFont(scaled_font(size))
    upright = are_labels_vertical(slot) and not shows_positions(heatmap.columns, slot.cell_width)
    for at, text in visible_column_labels(slot):
        paint_column_label(painter, slot, at, text, size, upright)


def label_font_size(axis: HeatmapAxis, cell: float) -> int:
    """Return the label size: for tokens, the largest size with which every cell has a label."""
    sizes = (LABEL, SMALL_LABEL, TINY_LABEL) if axis.is_token else ()
    return next((size for size in sizes if font_metrics(size).ascent() <= cell), LABEL)


def are_labels_vertical(slot: PanelSlot) -> bool:
    """Return whether the column labels of a panel are vertical; positions never are."""
    columns = slot.heatmap.columns
    return columns.is_token and has_vertical_labels(
        widest_label_width(columns.labels), slot.cell_width
    )


def shows_positions(axis: HeatmapAxis, cell: float) -> bool:
    """Return whether positions replace token labels, because too few labels would fit."""
    return (
        axis.is_token and _label_step(axis, cell, space_per_label(axis, cell)) > MIN_LABEL_DENSITY
    )


def visible_column_labels(slot: PanelSlot) -> list[tuple[int, str]]:
    """Return the column labels that fit; vertical labels are chosen like row labels."""
    axis, cell = slot.heatmap.columns, slot.cell_width
    if are_labels_vertical(slot) and not shows_positions(axis, cell):
        return visible_labels(axis, cell)
    shown = visible_labels(
        axis, cell, upright=False, needed=max(cell, column_label_width(axis, cell))
    )
    if not shows_positions(axis, cell):
        return shown
    half = font_metrics(12).horizontalAdvance(f"{len(axis.labels):,}") / 2
    room = slot.cells.width() + MAX_LABEL_OVERHANG_PX - half  # anything beyond would be clipped
    return [(at, text) for at, text in shown if axis.cell_index_of(at) * cell <= room]


def column_label_width(axis: HeatmapAxis, cell: float) -> float:
    """Return the width that column labels need side by side."""
    if shows_positions(axis, cell):
        return font_metrics(12).horizontalAdvance(f"{len(axis.labels):,}") + 8
    if axis.is_token:
        return widest_label_width(axis.labels) * label_font_size(axis, cell) / LABEL + 3
    return font_metrics(12).horizontalAdvance(axis.labels[-1]) + 8


def paint_column_label(
    painter: QPainter, slot: PanelSlot, at: int, text: str, size: int, upright: bool
) -> None:
    """Draw a label above a column; it is vertical if labels do not fit side by side."""
    left = slot.cells.left() + slot.heatmap.columns.cell_index_of(at) * slot.cell_width
    centre = QPointF(left + slot.cell_width / 2, slot.cells.top() - 4)
    line, text = font_metrics(size).height(), elide_label(text, slot.longest, size)
    painter.save()
    painter.translate(centre)
    if upright:
        painter.rotate(-90)
        painter.drawText(QRectF(0, -line / 2, 400, line), ALIGN_LEFT, text)
    else:
        painter.drawText(QRectF(-200, -line, 400, line), ALIGN_CENTRE, text)
    painter.restore()


def row_label_box(slot: PanelSlot, at: int) -> QRectF:
    """Return the rectangle of a row's label, left of the cells."""
    line = font_metrics(label_font_size(slot.heatmap.rows, slot.cell_height)).height()
    height = max(line, slot.cell_height)
    middle = slot.cells.top() + (slot.heatmap.rows.cell_index_of(at) + 0.5) * slot.cell_height
    return QRectF(slot.cells.left() - slot.gutter, middle - height / 2, slot.gutter - 8, height)


def visible_labels(
    axis: HeatmapAxis, cell: float, upright: bool = True, needed: float = 0
) -> list[tuple[int, str]]:
    """Return the labels that fit: all labels, evenly spaced labels, or positions counted from 1."""
    step = _label_step(axis, cell, space_per_label(axis, cell) if upright else needed)
    if shows_positions(axis, cell):
        step = 1 << (step - 1).bit_length()
        first = -(-(axis.visible_range.start + 1) // step) * step - 1
        at_start = (0,) if axis.visible_range.start == 0 else ()
        return [
            (at, f"{at + 1:,}") for at in (*at_start, *range(first, axis.visible_range.stop, step))
        ]
    is_named = axis.is_token or step == 1
    step = step if is_named else next(round_ for round_ in _round_numbers() if round_ >= step)
    first = 0 if is_named else step - 1
    # The same labels while the panel is panned.
    first += math.ceil((axis.visible_range.start - first) / step) * step
    return [(at, axis.labels[at]) for at in range(first, axis.visible_range.stop, step)]


def space_per_label(axis: HeatmapAxis, cell: float) -> float:
    """Return the room per label: the cell if a label is readable in it, otherwise a line."""
    every = axis.is_token and font_metrics(label_font_size(axis, cell)).ascent() <= cell
    return cell if every else font_metrics(LABEL).height()


def _label_step(axis: HeatmapAxis, cell: float, room: float) -> int:
    """Return the number of rows or columns between two labels that fit."""
    return axis.block * max(1, math.ceil(room / cell - 0.25))


def _round_numbers() -> Iterator[int]:
    for power in itertools.count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def elide_label(text: str, longest: float, size: int) -> str:
    """Elide a label that is wider than `longest`."""
    return _elide_label(text, longest, size, system_font())


@lru_cache(maxsize=2048)
def _elide_label(text: str, longest: float, size: int, font: QFont) -> str:
    return font_metrics(size).elidedText(text, Qt.TextElideMode.ElideRight, longest)


def paint_head_label(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the label of a panel's head or text, if its position includes it."""
    heatmap = slot.heatmap
    if slot.head_at is None or not heatmap.label:
        return
    text = short_head_label(heatmap) if slot.is_head_short else heatmap.label
    corner = slot.cells.topLeft() + QPointF(*slot.head_at)
    box = QRectF(corner.x(), corner.y(), 160 * text_scale(), 18 * text_scale())
    painter.setFont(scaled_font(12, QFont.Weight.DemiBold))
    if heatmap.head is not None and heatmap.layer is None:
        box.setLeft(_paint_head_dot(painter, box, heatmap.head, theme))
    painter.setPen(QColor(theme.ink))
    painter.drawText(box, ALIGN_LEFT, text)


def _paint_head_dot(painter: QPainter, box: QRectF, head: int, theme: Theme) -> float:
    """Draw a head's mark at the start of a line, and return the left edge of the remaining line."""
    dot = 8 * text_scale()
    place = QRectF(box.left(), box.center().y() - dot / 2, dot, dot)
    paint_head_mark(painter, place, head, theme)
    return box.left() + dot + 5


def _footer_line_area(slot: PanelSlot, line: int, width: float) -> QRectF:
    scale = text_scale()
    top = slot.cells.bottom() + (2 + NOTE_HEIGHT_PX * line) * scale
    return QRectF(slot.cells.left(), top, width, NOTE_HEIGHT_PX * scale)


def paint_own_scale(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the ends of a panel's scale below it if the panels do not share a scale."""
    heatmap = slot.heatmap
    if heatmap.layer is not None or heatmap.colour.limits is not ColourLimits.PANEL:
        return
    low, _, high = format_colour_bar_texts(heatmap)
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    text = f"±{high}" if heatmap.colour.is_signed else f"{low} to {high}"
    painter.drawText(
        _footer_line_area(slot, 0, slot.whole_area.right() - slot.cells.left()), ALIGN_LEFT, text
    )


def _paint_ramp(painter: QPainter, bar: QRectF, heatmap: Heatmap, theme: Theme) -> None:
    ramp = np.arange(colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
    cell_paint.paint_cells(painter, bar, ramp, heatmap.colour.map, theme)


def paint_notes(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the notes of a single panel below it; a layer's notes are elided and above it."""
    heatmap, line = slot.heatmap, NOTE_HEIGHT_PX * text_scale()
    notes = heatmap.notes if heatmap.layer is not None else slot.panel_notes
    if not notes:
        return
    is_marked = heatmap.is_marked
    weight = QFont.Weight.DemiBold if is_marked else QFont.Weight.Normal
    painter.setFont(scaled_font(12, weight))
    painter.setPen(QColor(theme.ink if is_marked else theme.quiet))
    room = slot.whole_area.right() - slot.cells.left()
    if heatmap.layer is not None:
        left = slot.cells.left()
        if slot.head_at is not None:  # the layer's name is on the same line
            named = head_label_width(heatmap, is_short=False) + 8 * text_scale()
            left = max(left, left + slot.head_at[0] + named)
        width = slot.whole_area.right() - left
        first = QRectF(left, slot.whole_area.top(), width, line)
    else:
        notes, width = tuple(shorten_note(note, room) for note in notes), 400.0
        first = _footer_line_area(slot, heatmap.colour.limits is ColourLimits.PANEL, width)
    for position, note in enumerate(notes):
        box = first.translated(0, line * position)
        painter.drawText(box, ALIGN_LEFT, _elide_note(note, weight, width, system_font()))


@lru_cache(maxsize=256)
def _elide_note(note: str, weight: QFont.Weight, width: float, font: QFont) -> str:
    measures = QFontMetricsF(scaled_font(12, weight))
    return measures.elidedText(note, Qt.TextElideMode.ElideRight, width)


def paint_column_headers(
    painter: QPainter, heads: tuple[ColumnHeader, ...], theme: Theme, *, has_letters: bool = False
) -> None:
    """Draw the stages' names above their columns, and the scale that their panels share.

    Parameters
    ----------
    has_letters : bool
        Whether several stages have letters before their names, in the gap before the column.
    """
    if has_letters and len(heads) > 1 and heads[0].heatmap.layer is None:
        for head, letter in zip(heads, ascii_lowercase, strict=False):
            _paint_letter(painter, head, letter, theme)
    for head in heads:
        heatmap, line = head.heatmap, 20 * text_scale()
        beside = _paint_title(painter, QPointF(head.left, 0), heatmap, 14, theme)
        if heatmap.layer is None:
            _paint_axes_and_scale(painter, head, _format_axes(heatmap), 0, beside, theme)
        elif head is heads[0]:
            axes, top = _format_axes(heatmap), line - 3 * text_scale()
            area = QRectF(head.left, top, 300, NOTE_HEIGHT_PX * text_scale())
            painter.setFont(scaled_font(12))
            painter.setPen(QColor(theme.quiet))
            _paint_axes_and_colour_bar(painter, area, axes, heatmap, theme)


def _paint_letter(painter: QPainter, head: ColumnHeader, letter: str, theme: Theme) -> None:
    width, height = LETTER_PX * text_scale(), 20 * text_scale()
    painter.setFont(scaled_font(14, QFont.Weight.Bold))
    painter.setPen(QColor(theme.ink))
    area = QRectF(head.left - width - 6 * text_scale(), 0, width, height)
    painter.drawText(area, ALIGN_RIGHT, letter)


def paint_panel_title(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw a panel's title and scale above it if they are not pinned at the top."""
    if slot.title is TitlePlacement.OWN:
        head, top = slot.column_header, slot.whole_area.top()
        beside = _paint_title(painter, QPointF(head.left, top), head.heatmap, 14, theme)
        _paint_axes_and_scale(painter, head, _format_axes(head.heatmap), top, beside, theme)
    elif slot.title is TitlePlacement.LINE:
        head, scale = slot.column_header, text_scale()
        top = slot.cells.top() - 20 * scale
        beside = _paint_title(painter, QPointF(head.left, top), head.heatmap, 12, theme)
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(theme.quiet))
        end = format_scale_end(head.heatmap)
        pooled = f"{end}, pooled" if head.heatmap.is_pooled else end
        if beside + font_metrics(12).horizontalAdvance(pooled) <= slot.whole_area.right():
            end = pooled
        width = font_metrics(12).horizontalAdvance(end) + 4
        painter.drawText(QRectF(beside, top, width, 20 * scale), ALIGN_LEFT, end)


def _paint_title(
    painter: QPainter, at: QPointF, heatmap: Heatmap, size: int, theme: Theme
) -> float:
    """Draw a title, and return the left edge of the remaining line."""
    scale = text_scale()
    painter.setFont(scaled_font(size, QFont.Weight.DemiBold))
    width = QFontMetricsF(painter.font()).horizontalAdvance(heatmap.title)
    line = QRectF(at.x(), at.y(), width + 4, 20 * scale)
    if heatmap.layer is not None and heatmap.head is not None:
        line.moveLeft(_paint_head_dot(painter, line, heatmap.head, theme))
    painter.setPen(QColor(theme.ink))
    painter.drawText(line, ALIGN_LEFT, heatmap.title)
    return line.right() + 8 * scale


def _format_axes(heatmap: Heatmap) -> str:
    return f"{heatmap.rows.name} ↓  {axis_noun(heatmap.columns.name)} →"


def _paint_axes_and_scale(
    painter: QPainter, head: ColumnHeader, axes: str, top: float, beside: float, theme: Theme
) -> None:
    """Draw the axis names of a column next to its title, and its scale and notes below."""
    scale, heatmap = text_scale(), head.heatmap
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    if beside + font_metrics(12).horizontalAdvance(axes) <= head.left + head.width:
        # On the line of the title, but slightly lower, because the letters are smaller.
        painter.drawText(QRectF(beside, top + scale, 300, 20 * scale), ALIGN_LEFT, axes)
    below = QRectF(head.left, top + 20 * scale, head.width, NOTE_HEIGHT_PX * scale)
    _paint_scale(painter, below, heatmap, theme)
    _paint_shared_notes(painter, below, head.notes, theme)


def _paint_scale(painter: QPainter, line: QRectF, heatmap: Heatmap, theme: Theme) -> None:
    """Draw a column's colour scale: its low end, its ramp and its high end."""
    measures, scale = font_metrics(12), text_scale()
    is_narrow = line.width() < MAX_COMPACT_WIDTH_PX * scale
    before, after = format_compact_scale(heatmap) if is_narrow else format_scale(heatmap)
    widths = [
        measures.horizontalAdvance(text) + RAMP_MARGIN_PX if text else 0 for text in (before, after)
    ]
    ramp = min(MAX_RAMP_PX * scale, max(MIN_RAMP_PX * scale, line.width() - sum(widths)))
    bar = QRectF(line.left() + widths[0], line.center().y() - 3 * scale, ramp, 6 * scale)
    painter.drawText(line, ALIGN_LEFT, before)
    _paint_ramp(painter, bar, heatmap, theme)
    painter.setPen(QColor(theme.quiet))
    end = line.translated(widths[0] + ramp + RAMP_MARGIN_PX, 0).adjusted(0, 0, 200, 0)
    painter.drawText(end, ALIGN_LEFT, after)


def _paint_shared_notes(
    painter: QPainter, line: QRectF, notes: tuple[str, ...], theme: Theme
) -> None:
    painter.setPen(QColor(theme.quiet))
    for note in notes:
        line = line.translated(0, line.height())
        painter.drawText(line.adjusted(0, 0, 400, 0), ALIGN_LEFT, shorten_note(note, line.width()))


def _paint_axes_and_colour_bar(
    painter: QPainter, line: QRectF, axes: str, heatmap: Heatmap, theme: Theme
) -> None:
    """Draw the axis names and the colour bar shared by all layers and heads."""
    measures, scale, (low, unit, high) = (
        font_metrics(12),
        text_scale(),
        format_colour_bar_texts(heatmap),
    )
    bar = QRectF(0, line.center().y() - 3 * scale, 72 * scale, 6 * scale)
    for text, after in ((axes, 20 * scale), (low, 5.0), ("", 5.0), (high, 8 * scale), (unit, 0.0)):
        painter.drawText(line, ALIGN_LEFT, text)
        if not text:
            bar.moveLeft(line.left())
            _paint_ramp(painter, bar, heatmap, theme)
        wide = measures.horizontalAdvance(text) if text else bar.width()
        line.translate(wide + after, 0)
