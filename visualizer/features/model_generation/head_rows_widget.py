"""Attention weights of one head as a small heatmap that grows by one row per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QHelpEvent, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.heatmap.value_to_colour_mapping import FORBIDDEN, MAX_COLOUR_INDEX, image
from visualizer.session.colour_maps import USUAL
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.plain_text_tooltips import show_tooltip
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPaintEvent

    from visualizer.features.model_generation.presenter import HeadRows

MAX_CELL_PX = 18
"""Maximum cell size, in pixels at the default text size."""
TALLEST = 160
"""Maximum height, in pixels at the default text size."""


class HeadRowsView(QWidget):
    """Heatmap of weights; a dashed line separates the given text from generated tokens."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Attention weights of the head, one row per token")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._rows: HeadRows | None = None
        self._image: QImage | None = None
        self._theme: Theme = LIGHT

    @property
    def rows(self) -> HeadRows | None:
        """The rows on display."""
        return self._rows

    def show_rows(self, rows: HeadRows | None, theme: Theme) -> None:
        """Show the rows of a head; hide the widget without rows."""
        if rows is self._rows and theme is self._theme:
            return
        self._rows, self._theme, self._image = rows, theme, None
        self.setVisible(rows is not None)
        if rows is not None:
            is_blank = np.isnan(rows.weights)
            sizes = (np.where(is_blank, 0, rows.weights) * MAX_COLOUR_INDEX + 0.5).clip(
                0, MAX_COLOUR_INDEX
            )
            colours = np.where(is_blank, FORBIDDEN, sizes).astype(np.uint8)
            self._image = image(colours, USUAL, theme)
            set_accessible_value(self, f"{rows.title}. {rows.of_last}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(round(280 * text_scale()), round(self._measure_cells(280 * text_scale())[1]))

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(self._measure_cells(width)[1]) + 2

    def _measure_cells(self, width: float) -> tuple[float, float]:
        """Return the size of a cell and the height of all rows for a given width."""
        if self._rows is None:
            return 1.0, 1.0
        rows, keys = self._rows.weights.shape
        tallest = TALLEST * text_scale()
        side = min(MAX_CELL_PX * text_scale(), (width - 2) / keys, tallest / rows)
        return side, max(1.0, side * rows)

    def place(self, row: int, key: int) -> QRectF:
        """Return the rectangle of a cell."""
        side, _ = self._measure_cells(self.width())
        return QRectF(1 + key * side, 1 + row * side, side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._rows is None or self._image is None:
            return
        painter = QPainter(self)
        rows, keys = self._rows.weights.shape
        side, _ = self._measure_cells(self.width())
        whole = QRectF(1, 1, side * keys, side * rows)
        painter.drawImage(whole, self._image)
        painter.setPen(QPen(QColor(self._theme.hairline), 1))
        painter.drawRect(whole)
        painter.setPen(QPen(QColor(self._theme.quiet), 1, Qt.PenStyle.DashLine))
        given = self._rows.given - self._rows.first
        if 0 < given < rows:
            height = 1 + given * side
            painter.drawLine(QPointF(1, height), QPointF(1 + side * keys, height))
        painter.setPen(QPen(QColor(self._theme.accent), 1.5))
        painter.drawRect(QRectF(1, 1 + (rows - 1) * side, side * keys, side))
        painter.end()

    def words_at(self, point: QPointF) -> str:
        """Return the description of the cell at a point; empty outside all cells."""
        if self._rows is None:
            return ""
        rows, keys = self._rows.weights.shape
        side, _ = self._measure_cells(self.width())
        row, key = int((point.y() - 1) // side), int((point.x() - 1) // side)
        is_within = 0 <= row < rows and 0 <= key < keys
        return self._rows.cell_in_words(row, key) if is_within else ""

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            show_tooltip(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)
