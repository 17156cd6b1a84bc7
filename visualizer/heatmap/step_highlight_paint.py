"""Paints over a panel: cells not computed yet, and what a step computes and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap import panel_margins_paint
from visualizer.heatmap.hovered_or_pinned_cell_paint import (
    frame,
    light_column_label,
    light_row_label,
)
from visualizer.heatmap.panel_margins import sums_width
from visualizer.heatmap.prediction_mark_paint import paint_prediction_marks, visible_cell_box
from visualizer.widgets.fonts import font

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.step_cell_and_prediction_highlights import (
        ComputedExtent,
        HighlightBlock,
        Highlights,
    )
    from visualizer.widgets.theme import Theme

SMALLEST_GRID = 8
SMALLEST_UNDERLINED = 20
MADE, READ = 3.0, 1.5


def paint_highlights(
    painter: QPainter, slot: PanelSlot, highlights: Highlights, theme: Theme
) -> None:
    """Cover the hidden part of a panel, and highlight what is computed and read."""
    stage = slot.heatmap.stage
    if stage in highlights.covered:
        _paint_covered(painter, slot, theme)
    for reach in highlights.reaches:
        if reach.stage == stage:
            _paint_empty(painter, slot, reach, theme)
    is_lit = not slot.heatmap.fold and not slot.heatmap.is_alone
    for block in highlights.blocks:
        if block.stage == stage and block.head == slot.heatmap.head and is_lit:
            _paint_highlighted(painter, slot, block, theme)
    if (
        highlights.leading
        and len(highlights.blocks[0].rows) * len(highlights.blocks[0].columns) > 1
    ):
        place = visible_cell_box(slot, highlights.leading)
        if place is not None and min(place.width(), place.height()) >= SMALLEST_UNDERLINED:
            _underline(painter, place, theme)
    paint_prediction_marks(painter, slot, highlights, theme)


def _paint_covered(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    area = slot.cells.adjusted(0, 0, sums_width(slot.heatmap), 0)
    painter.fillRect(area, QColor(theme.paper))
    painter.fillRect(slot.cells, QColor(theme.raised))
    _paint_grid(painter, slot, 0, theme)
    painter.setFont(font(20))
    painter.setPen(QColor(theme.quiet))
    painter.drawText(slot.cells, panel_margins_paint.CENTRE, "?")


def _paint_empty(painter: QPainter, slot: PanelSlot, reach: ComputedExtent, theme: Theme) -> None:
    """Blank the cells that are computed later: the rest of a row, and all rows after it."""
    cells, heatmap = slot.cells, slot.heatmap
    rows = max(0, (reach.rows - heatmap.rows.seen.start) / heatmap.rows.block)
    if rows >= heatmap.values.shape[0]:
        return
    top = cells.top() + rows * slot.cell_height
    below = top
    if reach.columns and reach.rows in heatmap.rows.seen:
        columns = max(0, (reach.columns - heatmap.columns.seen.start) / heatmap.columns.block)
        left = min(cells.left() + columns * slot.cell_width, cells.right())
        below = min(top + slot.cell_height, cells.bottom())
        painter.fillRect(QRectF(left, top, cells.right() - left, below - top), QColor(theme.paper))
    right = cells.right() + sums_width(heatmap)
    painter.fillRect(
        QRectF(cells.left(), below, right - cells.left(), cells.bottom() - below),
        QColor(theme.paper),
    )
    sums = QRectF(cells.right() + 1, top, right - cells.right(), cells.bottom() - top)
    painter.fillRect(sums, QColor(theme.paper))
    _paint_grid(painter, slot, int(rows), theme)


def _paint_grid(painter: QPainter, slot: PanelSlot, first: int, theme: Theme) -> None:
    """Draw a grid of empty cells from a row on, if they are large enough."""
    cells = slot.cells
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(cells.adjusted(-1, -1, 0, 0))
    if min(slot.cell_width, slot.cell_height) < SMALLEST_GRID:
        return
    rows, columns = slot.heatmap.values.shape
    top = cells.top() + first * slot.cell_height
    across = [cells.top() + row * slot.cell_height for row in range(first, rows + 1)]
    down = [cells.left() + column * slot.cell_width for column in range(columns + 1)]
    painter.drawLines([QLineF(cells.left(), y, cells.right(), y) for y in across])
    painter.drawLines([QLineF(x, top, x, cells.bottom()) for x in down])


def _paint_highlighted(
    painter: QPainter, slot: PanelSlot, block: HighlightBlock, theme: Theme
) -> None:
    heatmap = slot.heatmap
    rows, columns = (
        _common(block.rows, heatmap.rows.seen),
        _common(block.columns, heatmap.columns.seen),
    )
    if not rows or not columns:
        return
    first = slot.cell(rows[0], columns[0])
    area = first.united(slot.cell(rows[-1], columns[-1])).adjusted(-0.5, -0.5, 0.5, 0.5)
    frame(painter, area, MADE if block.is_made else READ, theme)
    if len(block.rows) == 1 and slot.has_row_labels:
        light_row_label(painter, slot, block.rows[0], theme)
    if len(block.columns) == 1 and len(heatmap.columns.labels) > 1:
        light_column_label(painter, slot, block.columns[0], theme)


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _underline(painter: QPainter, place: QRectF, theme: Theme) -> None:
    """Underline the number of the step's sentence, visible on every colour."""
    thick = 2.5 * theme.stroke
    line = QRectF(place.left() + 6, place.bottom() - 4.5 - thick, place.width() - 12, thick)
    painter.fillRect(line.adjusted(-1, -1, 1, 1), QColor(theme.paper))
    painter.fillRect(line, QColor(theme.accent))
