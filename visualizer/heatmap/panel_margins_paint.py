"""Paints the surroundings of a panel's cells: labels, head, notes, and the heads of columns."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visualizer.attention.stages import axis_word
from visualizer.heatmap import cell_paint, colour_mapping
from visualizer.heatmap.board_layout import TitlePlace
from visualizer.heatmap.panel_margins import (
    BETWEEN,
    COMPACT,
    NOTE,
    RAMP,
    compact_scale,
    fitting_note,
    is_upright,
    limit_texts,
    scale_end,
    scale_texts,
    sheet_words,
    short_head_label,
    widest_label,
)
from visualizer.session.view_options import ColourLimits
from visualizer.widgets.fonts import font, metrics, system_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.heatmap.board import Axis, Heatmap
    from visualizer.heatmap.board_layout import ColumnHead, PanelSlot
    from visualizer.widgets.theme import Theme

CENTRE = Qt.AlignmentFlag.AlignCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
MAX_RAMP_PX = 144
LABEL, SMALL_LABEL = 12, 10
"""Label sizes in pixels."""
BESIDE = 8
"""Maximum distance by which a position label may extend beyond the panel."""
FEWEST_NAMED = 8
"""If fewer than one in this many tokens has room for its label, positions are shown instead."""


def paint_labels(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the labels of rows and columns."""
    painter.setPen(QColor(theme.ink))
    heatmap = slot.heatmap
    if slot.has_row_labels:
        size = label_size(heatmap.rows, slot.cell_height)
        painter.setFont(font(size))
        for at, text in shown_labels(heatmap.rows, slot.cell_height):
            painter.drawText(row_label_box(slot, at), RIGHT, shortened(text, slot.longest, size))
    if not slot.has_column_labels:
        return
    painter.setFont(font(label_size(heatmap.columns, slot.cell_width)))
    upright = are_upright(slot) and not names_places(heatmap.columns, slot.cell_width)
    for at, text in shown_columns(slot):
        paint_column_label(painter, slot, at, text, upright)


def label_size(axis: Axis, cell: float) -> int:
    """Return the label size; tokens whose cells are slightly too small get a smaller one."""
    is_small = axis.is_token and metrics(SMALL_LABEL).ascent() <= cell < metrics(LABEL).ascent()
    return SMALL_LABEL if is_small else LABEL


def are_upright(slot: PanelSlot) -> bool:
    """Whether the tokens above a panel's columns are vertical; positions never are."""
    columns = slot.heatmap.columns
    return columns.is_token and is_upright(widest_label(columns.labels), slot.cell_width)


def names_places(axis: Axis, cell: float) -> bool:
    """Whether positions replace the labels of tokens, since too few labels would fit."""
    return axis.is_token and _label_step(axis, cell, line_room(axis, cell)) > FEWEST_NAMED


def shown_columns(slot: PanelSlot) -> list[tuple[int, str]]:
    """Return the column labels that fit; vertical ones are chosen like those of rows."""
    axis, cell = slot.heatmap.columns, slot.cell_width
    if are_upright(slot) and not names_places(axis, cell):
        return shown_labels(axis, cell)
    shown = shown_labels(axis, cell, upright=False, needed=max(cell, widest_column(axis, cell)))
    if not names_places(axis, cell):
        return shown
    half = metrics(12).horizontalAdvance(f"{len(axis.labels):,}") / 2
    room = slot.cells.width() + BESIDE - half  # anything beyond would be clipped
    return [(at, text) for at, text in shown if axis.cell(at) * cell <= room]


def widest_column(axis: Axis, cell: float) -> float:
    """Return the width that column labels need side by side."""
    if names_places(axis, cell):
        return metrics(12).horizontalAdvance(f"{len(axis.labels):,}") + 8
    if axis.is_token:
        return widest_label(axis.labels) * label_size(axis, cell) / LABEL + 3
    return metrics(12).horizontalAdvance(axis.labels[-1]) + 8


def paint_column_label(
    painter: QPainter, slot: PanelSlot, at: int, text: str, upright: bool
) -> None:
    """Draw a label above a column, vertical if labels do not fit side by side."""
    left = slot.cells.left() + slot.heatmap.columns.cell(at) * slot.cell_width
    centre = QPointF(left + slot.cell_width / 2, slot.cells.top() - 4)
    size = label_size(slot.heatmap.columns, slot.cell_width)
    line, text = metrics(size).height(), shortened(text, slot.longest, size)
    painter.save()
    painter.translate(centre)
    if upright:
        painter.rotate(-90)
        painter.drawText(QRectF(0, -line / 2, 400, line), LEFT, text)
    else:
        painter.drawText(QRectF(-200, -line, 400, line), CENTRE, text)
    painter.restore()


def row_label_box(slot: PanelSlot, at: int) -> QRectF:
    """Return the rectangle of a row's label, left of the cells."""
    line = metrics(label_size(slot.heatmap.rows, slot.cell_height)).height()
    height = max(line, slot.cell_height)
    middle = slot.cells.top() + (slot.heatmap.rows.cell(at) + 0.5) * slot.cell_height
    return QRectF(slot.cells.left() - slot.gutter, middle - height / 2, slot.gutter - 8, height)


def shown_labels(
    axis: Axis, cell: float, upright: bool = True, needed: float = 0
) -> list[tuple[int, str]]:
    """Return the labels that fit: all, or evenly spaced ones, or positions counted from 1."""
    step = _label_step(axis, cell, line_room(axis, cell) if upright else needed)
    if names_places(axis, cell):
        step = 1 << (step - 1).bit_length()
        first = -(-(axis.seen.start + 1) // step) * step - 1
        at_start = (0,) if axis.seen.start == 0 else ()
        return [(at, f"{at + 1:,}") for at in (*at_start, *range(first, axis.seen.stop, step))]
    is_named = axis.is_token or step == 1
    step = step if is_named else next(round_ for round_ in _round_numbers() if round_ >= step)
    first = 0 if is_named else step - 1
    first += (
        math.ceil((axis.seen.start - first) / step) * step
    )  # the same ones while the panel is panned
    return [(at, axis.labels[at]) for at in range(first, axis.seen.stop, step)]


def line_room(axis: Axis, cell: float) -> float:
    """Return the room per label; every token has a label if its cell is large enough to read it."""
    every = axis.is_token and metrics(label_size(axis, cell)).ascent() <= cell
    return cell if every else metrics(LABEL).height()


def _label_step(axis: Axis, cell: float, room: float) -> int:
    """Return the number of rows or columns between two labels that fit."""
    return axis.block * max(1, math.ceil(room / cell - 0.25))


def _round_numbers() -> Iterator[int]:
    for power in itertools.count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def shortened(text: str, longest: float, size: int) -> str:
    """Elide a label that is wider than `longest`."""
    return _elide_label(text, longest, size, system_font())


@lru_cache(maxsize=2048)
def _elide_label(text: str, longest: float, size: int, system: str) -> str:
    return metrics(size).elidedText(text, Qt.TextElideMode.ElideRight, longest)


def paint_head(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the label of a panel's head or text, if its position includes it."""
    heatmap = slot.heatmap
    if slot.head_at is None or not heatmap.label:
        return
    text = short_head_label(heatmap) if slot.is_head_short else heatmap.label
    corner = slot.cells.topLeft() + QPointF(*slot.head_at)
    box = QRectF(corner.x(), corner.y(), 160 * text_scale(), 18 * text_scale())
    painter.setFont(font(12, QFont.Weight.DemiBold))
    if heatmap.head is not None and heatmap.layer is None:
        box.setLeft(_paint_dot(painter, box, heatmap.head, theme))
    painter.setPen(QColor(theme.ink))
    painter.drawText(box, LEFT, text)


def _paint_dot(painter: QPainter, box: QRectF, head: int, theme: Theme) -> float:
    """Draw a head's mark at the start of a line; return the left edge of the remaining line."""
    dot = 8 * text_scale()
    place = QRectF(box.left(), box.center().y() - dot / 2, dot, dot)
    paint_head_mark(painter, place, head, theme)
    return box.left() + dot + 5


def _foot_line_box(slot: PanelSlot, line: int, width: float) -> QRectF:
    scale = text_scale()
    top = slot.cells.bottom() + (2 + NOTE * line) * scale
    return QRectF(slot.cells.left(), top, width, NOTE * scale)


def paint_own_ends(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the ends of a panel's own scale below it, if panels do not share one."""
    heatmap = slot.heatmap
    if heatmap.layer is not None or heatmap.colour.limits is not ColourLimits.PANEL:
        return
    low, _, high = limit_texts(heatmap)
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    text = f"±{high}" if heatmap.colour.is_signed else f"{low} to {high}"
    painter.drawText(_foot_line_box(slot, 0, slot.whole.right() - slot.cells.left()), LEFT, text)


def _paint_ramp(painter: QPainter, bar: QRectF, heatmap: Heatmap, theme: Theme) -> None:
    ramp = np.arange(colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
    cell_paint.paint_colours(painter, bar, ramp, heatmap.colour.map, theme)


def paint_notes(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the notes that a panel does not share below it; a layer's notes are above it, elided."""
    heatmap, line = slot.heatmap, NOTE * text_scale()
    notes = heatmap.notes if heatmap.layer is not None else slot.own_notes
    if not notes:
        return
    is_marked = heatmap.is_marked
    weight = QFont.Weight.DemiBold if is_marked else QFont.Weight.Normal
    painter.setFont(font(12, weight))
    painter.setPen(QColor(theme.ink if is_marked else theme.quiet))
    room = slot.whole.right() - slot.cells.left()
    if heatmap.layer is not None:
        width = room
        first = QRectF(slot.cells.left(), slot.whole.top(), width, line)
    else:
        notes, width = tuple(fitting_note(note, room) for note in notes), 400.0
        first = _foot_line_box(slot, heatmap.colour.limits is ColourLimits.PANEL, width)
    for position, note in enumerate(notes):
        box = first.translated(0, line * position)
        painter.drawText(box, LEFT, _elide_note(note, weight, width, system_font()))


@lru_cache(maxsize=256)
def _elide_note(note: str, weight: QFont.Weight, width: float, system: str) -> str:
    measures = QFontMetricsF(font(12, weight))
    return measures.elidedText(note, Qt.TextElideMode.ElideRight, width)


def paint_column_heads(painter: QPainter, heads: tuple[ColumnHead, ...], theme: Theme) -> None:
    """Draw the stages' names above their columns, with the scale that their panels share."""
    for head in heads:
        heatmap, line = head.heatmap, 20 * text_scale()
        beside = _paint_title(painter, QPointF(head.left, 0), heatmap, 14, theme)
        if heatmap.layer is None:
            _paint_axes_and_scale(painter, head, _format_axes(heatmap), 0, beside, theme)
        elif head is heads[0]:
            axes, top = _format_axes(heatmap), line - 3 * text_scale()
            area = QRectF(head.left, top, 300, NOTE * text_scale())
            painter.setFont(font(12))
            painter.setPen(QColor(theme.quiet))
            _paint_shared(painter, area, axes, heatmap, theme)


def paint_own_title(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw a panel's title and its scale above it, if they are not pinned at the top."""
    if slot.title in {TitlePlace.OWN, TitlePlace.SHEET}:
        head, top = slot.column_head, slot.whole.top()
        beside = _paint_title(painter, QPointF(head.left, top), head.heatmap, 14, theme)
        is_sheet = slot.title is TitlePlace.SHEET
        text = sheet_words(head.heatmap) if is_sheet else _format_axes(head.heatmap)
        _paint_axes_and_scale(painter, head, text, top, beside, theme)
    elif slot.title is TitlePlace.LINE:
        head, scale = slot.column_head, text_scale()
        top = slot.cells.top() - 20 * scale
        beside = _paint_title(painter, QPointF(head.left, top), head.heatmap, 12, theme)
        painter.setFont(font(12))
        painter.setPen(QColor(theme.quiet))
        end = scale_end(head.heatmap)
        pooled = f"{end}, pooled" if head.heatmap.is_pooled else end
        if beside + metrics(12).horizontalAdvance(pooled) <= slot.whole.right():
            end = pooled
        width = metrics(12).horizontalAdvance(end) + 4
        painter.drawText(QRectF(beside, top, width, 20 * scale), LEFT, end)


def _paint_title(
    painter: QPainter, at: QPointF, heatmap: Heatmap, size: int, theme: Theme
) -> float:
    """Draw a title; return the left edge of the remaining line."""
    scale = text_scale()
    painter.setFont(font(size, QFont.Weight.DemiBold))
    width = QFontMetricsF(painter.font()).horizontalAdvance(heatmap.title)
    line = QRectF(at.x(), at.y(), width + 4, 20 * scale)
    if heatmap.layer is not None and heatmap.head is not None:
        line.moveLeft(_paint_dot(painter, line, heatmap.head, theme))
    painter.setPen(QColor(theme.ink))
    painter.drawText(line, LEFT, heatmap.title)
    return line.right() + 8 * scale


def _format_axes(heatmap: Heatmap) -> str:
    return f"{heatmap.rows.name} ↓  {axis_word(heatmap.columns.name)} →"


def _paint_axes_and_scale(
    painter: QPainter, head: ColumnHead, axes: str, top: float, beside: float, theme: Theme
) -> None:
    """Draw the names of a column's axes next to its title, and its scale and notes below."""
    scale, heatmap = text_scale(), head.heatmap
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    if beside + metrics(12).horizontalAdvance(axes) <= head.left + head.width:
        # On the title's own line, slightly lower, since its letters are smaller.
        painter.drawText(QRectF(beside, top + scale, 300, 20 * scale), LEFT, axes)
    below = QRectF(head.left, top + 20 * scale, head.width, NOTE * scale)
    _paint_scale(painter, below, heatmap, theme)
    _paint_shared_notes(painter, below, head.notes, theme)


def _paint_scale(painter: QPainter, line: QRectF, heatmap: Heatmap, theme: Theme) -> None:
    """Draw a column's colour scale: its low end, its ramp and its high end."""
    measures, scale = metrics(12), text_scale()
    is_narrow = line.width() < COMPACT * scale
    before, after = compact_scale(heatmap) if is_narrow else scale_texts(heatmap)
    widths = [measures.horizontalAdvance(text) + BETWEEN if text else 0 for text in (before, after)]
    ramp = min(MAX_RAMP_PX * scale, max(RAMP * scale, line.width() - sum(widths)))
    bar = QRectF(line.left() + widths[0], line.center().y() - 3 * scale, ramp, 6 * scale)
    painter.drawText(line, LEFT, before)
    _paint_ramp(painter, bar, heatmap, theme)
    painter.setPen(QColor(theme.quiet))
    painter.drawText(line.translated(widths[0] + ramp + BETWEEN, 0).adjusted(0, 0, 200, 0), LEFT,
                     after)  # fmt: skip


def _paint_shared_notes(
    painter: QPainter, line: QRectF, notes: tuple[str, ...], theme: Theme
) -> None:
    painter.setPen(QColor(theme.quiet))
    for note in notes:
        line = line.translated(0, line.height())
        painter.drawText(line.adjusted(0, 0, 400, 0), LEFT, fitting_note(note, line.width()))


def _paint_shared(
    painter: QPainter, line: QRectF, axes: str, heatmap: Heatmap, theme: Theme
) -> None:
    """Draw the axis names and the colour bar shared by all layers and heads."""
    measures, scale, (low, unit, high) = metrics(12), text_scale(), limit_texts(heatmap)
    bar = QRectF(0, line.center().y() - 3 * scale, 72 * scale, 6 * scale)
    for text, after in ((axes, 20 * scale), (low, 5.0), ("", 5.0), (high, 8 * scale), (unit, 0.0)):
        painter.drawText(line, LEFT, text)
        if not text:
            bar.moveLeft(line.left())
            _paint_ramp(painter, bar, heatmap, theme)
        wide = measures.horizontalAdvance(text) if text else bar.width()
        line.translate(wide + after, 0)
