"""The light of the cursor over a panel: its row and column, their labels, the cell itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from visualizer.state.cursor import Cursor, is_of
from visualizer.state.zoom import row_role
from visualizer.ui import captions
from visualizer.ui.measures import is_upright
from visualizer.ui.theme import font, metrics

if TYPE_CHECKING:
    from visualizer.state.panels import Heatmap
    from visualizer.state.view import Cell
    from visualizer.ui.slots import Slot
    from visualizer.ui.theme import Theme


def paint_cursor(painter: QPainter, slot: Slot, cursor: Cursor, theme: Theme) -> None:
    """Light a panel up, as far as the cursor concerns it."""
    heatmap, cells = slot.heatmap, slot.cells
    row = cursor.key if row_role(heatmap.stage) == "key" else cursor.query
    column = _lit_column(heatmap, cursor)
    if row is not None and row in heatmap.rows.seen:
        band = slot.cell(row, 0)
        frame(painter, QRectF(cells.left(), band.top(), cells.width(), band.height()), 1, theme)
        if slot.has_row_labels:
            light_row_label(painter, slot, row, theme)
    if column is not None and column in heatmap.columns.seen:
        band = slot.cell(0, column)
        frame(painter, QRectF(band.left(), cells.top(), band.width(), cells.height()), 1, theme)
        light_column_label(painter, slot, column, theme)
    for cell, width in ((cursor.hovered, 1.5), (cursor.pinned, 3)):
        if cell and is_seen(heatmap, cell):
            place = slot.cell(*cell.place[-2:]).adjusted(-0.5, -0.5, 0.5, 0.5)
            frame(painter, place, width, theme)


def is_seen(heatmap: Heatmap, cell: Cell) -> bool:
    """Whether a cell is drawn in a panel."""
    row, column = cell.place[-2:]
    return is_of(heatmap, cell) and row in heatmap.rows.seen and column in heatmap.columns.seen


def _lit_column(heatmap: Heatmap, cursor: Cursor) -> int | None:
    if heatmap.columns.name == "key":
        return cursor.key
    return cursor.column[1] if cursor.column and cursor.column[0] == heatmap.stage else None


def frame(painter: QPainter, area: QRectF, width: float, theme: Theme, colour: str = "") -> None:
    """Draw a frame that can be seen on every colour of a map: the accent, edged with paper."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for ink, thickness in ((theme.paper, width + 2), (colour or theme.accent, width)):
        painter.setPen(QPen(QColor(ink), thickness))
        painter.drawRect(area)


def light_row_label(painter: QPainter, slot: Slot, row: int, theme: Theme) -> None:
    """Write a row's label in the accent, over those that it would touch."""
    lit = captions.row_label_box(slot, row)
    line = metrics(12).height()
    for at, _ in captions.shown_labels(slot.heatmap.rows, slot.cell_height):
        box = captions.row_label_box(slot, at)
        if abs(box.center().y() - lit.center().y()) < line:  # it would stick out under the other
            painter.fillRect(box.adjusted(0, 0, 4, 0), QColor(theme.paper))
    painter.fillRect(lit.adjusted(0, 0, 4, 0), QColor(theme.paper))
    painter.setFont(font(12, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.accent))
    painter.drawText(lit, captions.RIGHT, captions.shortened(slot.heatmap.rows.labels[row]))


def light_column_label(painter: QPainter, slot: Slot, column: int, theme: Theme) -> None:
    """Write a column's label in the accent, over those that it would touch."""
    axis = slot.heatmap.columns
    upright = is_upright(slot.heatmap, slot.cell_width) and axis.is_token
    around = metrics(12).height() if upright else 24
    lit = _column_label_box(slot, column, around)
    for at, _ in captions.shown_labels(axis, slot.cell_width) if upright else ():
        box = _column_label_box(slot, at, around)
        if abs(box.center().x() - lit.center().x()) < around:
            painter.fillRect(box, QColor(theme.paper))
    painter.fillRect(lit, QColor(theme.paper))
    painter.setFont(font(12, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.accent))
    captions.paint_column_label(painter, slot, column, axis.labels[column], upright)


def _column_label_box(slot: Slot, column: int, around: float) -> QRectF:
    band = slot.cell(0, column)
    width = max(band.width(), around)
    left = band.center().x() - width / 2
    return QRectF(left, slot.cells.top() - slot.top + 2, width, slot.top - 4)
