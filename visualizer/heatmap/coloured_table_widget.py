"""A scrollable table of coloured cells with mouse and keyboard input, and its colour bar."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QContextMenuEvent,
    QGuiApplication,
    QKeySequence,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.format import format_two_decimals
from visualizer.heatmap.cell_scroll_widget import ARROW_STEPS
from visualizer.heatmap.cell_table_widget import CellTable
from visualizer.heatmap.colour_mapping import (
    MAX_COLOUR_INDEX,
    NAN_COLOUR_INDEX,
    colour_table,
    create_colour_image,
    dark_text_mask,
)
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.context_menu import MenuEntry, open_context_menu
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent

    from visualizer.heatmap.coloured_table import ColouredTable, RowColumnIndex

TEXT_CELL_WIDTHS, CELL_WIDTHS = (46, 96), (7, 26)
"""Minimum and maximum width of a cell with text, and of a cell without text."""
CELL_HEIGHT_RANGE_PX = (7, 22)
"""Minimum and maximum height of a cell without text."""
GAP_PX = 6
MAX_TITLE_PX = 90
ALIGN_CENTRE = Qt.AlignmentFlag.AlignCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def _cells_between(start: float, end: float, size: float, count: int) -> range:
    """Return the cells of an axis between two positions on the axis, to the nearest pixel."""
    return range(max(0, int((start - 1) // size)), min(count, int((end + 1) // size) + 1))


class ColouredTableView(CellTable):
    """The table; a cell is identified by its row and column."""

    def __init__(self, name: str, keys: str) -> None:
        super().__init__(name, keys)
        self.cells: ColouredTable | None = None
        self._focused = (0, 0)
        self._side = self._top = self._width = self._height = self._gap = 0.0
        """Measured once per table and size, because they determine the position of every cell."""

    def show_table(self, cells: ColouredTable | None, theme: Theme) -> None:
        """Show a table, or nothing."""
        if cells is self.cells and theme is self._theme:
            return
        before = self.cells.columns if self.cells else ()
        self.cells, self._theme = cells, theme
        if cells is not None:
            rows, columns = cells.values.shape
            self._focused = (min(self._focused[0], rows - 1), min(self._focused[1], columns - 1))
            if self._hovered and not (self._hovered[0] < rows and self._hovered[1] < columns):
                self._hovered = None
        else:
            self._hovered = None
        self._update_scroll_ranges()
        if cells is not None and cells.words and cells.columns != before:
            bar = self.horizontalScrollBar()  # the end of the text matters most
            bar.setValue(bar.maximum())
        self._emit_cell_description()
        self.viewport().update()

    # ------------------------------------------------------------------ geometry

    def _measure_title_width(self) -> float:
        """Return the width of the row titles."""
        titles = self.cells.rows if self.cells else ()
        widest = max(map(font_metrics(10).horizontalAdvance, titles), default=0.0)
        return min(widest, MAX_TITLE_PX * text_scale()) + 6

    def _measure_cell_width(self) -> float:
        """Return the width of a cell, in logical pixels."""
        cells = self.cells
        assert cells is not None
        least, most = (
            each * text_scale() for each in (TEXT_CELL_WIDTHS if cells.words else CELL_WIDTHS)
        )
        room = self.viewport().width() - self._side - self._gap
        return float(np.clip(room // max(1, len(cells.columns)), least, most))

    def _measure_cell_height(self) -> float:
        cells = self.cells
        assert cells is not None
        least, most = (each * text_scale() for each in CELL_HEIGHT_RANGE_PX)
        if cells.words:
            least, most = (font_metrics(10).height() + more for more in (1, 6))
        room = self.viewport().height() - self._top
        return float(np.clip(room // max(1, len(cells.rows)), round(least), round(most)))

    def rect_of(self, row: int, column: int) -> QRect:
        """Return the rectangle of a cell in the viewport."""
        left = self._column_left(column) - self.horizontalScrollBar().value()
        top = self._top + row * self._height - self.verticalScrollBar().value()
        return QRect(round(left), round(top), round(self._width), round(self._height))

    def _cell_rect(self, cell: RowColumnIndex) -> QRect:
        return self.rect_of(*cell)

    def _describe_cell(self, cell: RowColumnIndex) -> str:
        return self.cells.describe(*cell) if self.cells else ""

    def _column_left(self, column: int) -> float:
        cells = self.cells
        assert cells is not None
        is_apart = cells.gap_column and column >= cells.gap_column
        return self._side + column * self._width + (self._gap if is_apart else 0)

    def _cell_at(self, point: QPointF) -> RowColumnIndex | None:
        cells = self.cells
        if cells is None or point.x() < self._side or point.y() < self._top:
            return None
        rows, columns = cells.values.shape
        row = int((point.y() - self._top + self.verticalScrollBar().value()) // self._height)
        right = point.x() + self.horizontalScrollBar().value() - self._side
        column = int(right // self._width)
        if cells.gap_column and column >= cells.gap_column:
            column = max(cells.gap_column, int((right - self._gap) // self._width))
        return (row, column) if 0 <= row < rows and 0 <= column < columns else None

    def _update_scroll_ranges(self) -> None:
        """Update the ranges of the scroll bars."""
        view, cells = self.viewport().size(), self.cells
        self._side, self._top = self._measure_title_width(), font_metrics(10).height() + 3
        self._gap = GAP_PX * text_scale() if cells and cells.gap_column else 0.0
        if cells is not None:
            self._width, self._height = self._measure_cell_width(), self._measure_cell_height()
        right = self._column_left(len(cells.columns)) if cells else 0
        bottom = self._top + len(cells.rows) * self._height if cells else 0
        for bar, needed, room in (
            (self.horizontalScrollBar(), right, view.width()),
            (self.verticalScrollBar(), bottom, view.height()),
        ):
            bar.setPageStep(room)
            bar.setSingleStep(round(20 * text_scale()))
            bar.setRange(0, max(0, round(needed) - room))

    def sizeHint(self) -> QSize:
        cells = self.cells
        if cells is None:
            return QSize(0, 0)
        return QSize(200, round(self._top + len(cells.rows) * self._height))

    # ------------------------------------------------------------------ painting

    def paintEvent(self, event: QPaintEvent) -> None:
        cells = self.cells
        if cells is None:
            return
        painter = QPainter(self.viewport())
        painter.setFont(scaled_font(10))
        view = self.viewport().size()
        painter.save()
        painter.setClipRect(
            QRectF(self._side, self._top, view.width() - self._side, view.height() - self._top)
        )
        rows, columns = self._rows_and_columns_in(event.rect(), cells)
        self._paint_cells(painter, cells, rows, columns)
        painter.restore()
        self._paint_titles(painter, cells, columns)
        painter.end()

    def _rows_and_columns_in(self, part: QRect, cells: ColouredTable) -> tuple[range, range]:
        """Return the rows and columns with cells in a part of the viewport."""
        top = part.top() - self._top + self.verticalScrollBar().value()
        left = part.left() - self._side + self.horizontalScrollBar().value()
        return (
            _cells_between(top, top + part.height(), self._height, len(cells.rows)),
            _cells_between(left - self._gap, left + part.width(), self._width, len(cells.columns)),
        )

    def _paint_cells(
        self, painter: QPainter, cells: ColouredTable, rows: range, columns: range
    ) -> None:
        numbers = cells.scale_positions()
        unknown = np.isnan(numbers)
        indices = np.where(
            unknown, NAN_COLOUR_INDEX, np.nan_to_num(numbers) * MAX_COLOUR_INDEX + 0.5
        )
        indices = indices.astype(np.uint8)
        colours = colour_table(cells.map_name, self._theme)
        light = dark_text_mask(cells.map_name, self._theme)
        paper = QColor(self._theme.raised)
        lines = font_metrics(10)
        for row in rows:
            for column in columns:
                inner = QRectF(self.rect_of(row, column)).adjusted(0, 0, -1, -1)
                index = indices[row, column]
                is_unknown = bool(unknown[row, column])
                painter.fillRect(inner, paper if is_unknown else QColor(int(colours[index])))
                if cells.words and not is_unknown:
                    painter.setPen(QColor("#000000" if light[index] else "#ffffff"))
                    word = cells.words[row][column]
                    short = lines.elidedText(word, Qt.TextElideMode.ElideRight, inner.width() - 4)
                    painter.drawText(inner.adjusted(2, 0, -2, 0), ALIGN_LEFT, short)
        for place in cells.marked:
            self._draw_frame(painter, place, QColor(self._theme.ink), 2)
        if self.hasFocus():
            self._draw_frame(painter, self._focused, QColor(self._theme.accent), 2)
        if self._hovered is not None:
            self._draw_frame(painter, self._hovered, QColor(self._theme.ink), 1)

    def _draw_frame(
        self, painter: QPainter, place: RowColumnIndex, colour: QColor, width: float
    ) -> None:
        painter.setPen(QPen(colour, width * self._theme.stroke))
        painter.drawRect(QRectF(self.rect_of(*place)).adjusted(0, 0, -1, -1))

    def _paint_titles(self, painter: QPainter, cells: ColouredTable, columns: range) -> None:
        lines, view = font_metrics(10), self.viewport().size()
        painter.setClipRect(QRectF(0, self._top, self._side, view.height() - self._top))
        for row in self._titled_rows(cells):
            box = QRectF(self.rect_of(row, 0))
            box.setLeft(0)
            box.setRight(self._side - 5)
            is_marked = row == cells.highlighted_row
            painter.setPen(QColor(self._theme.accent if is_marked else self._theme.quiet))
            title = lines.elidedText(cells.rows[row], Qt.TextElideMode.ElideRight, box.width())
            painter.drawText(box, ALIGN_RIGHT | Qt.TextFlag.TextDontClip, title)
        painter.setClipRect(QRectF(self._side, 0, view.width() - self._side, self._top))
        painter.setPen(QColor(self._theme.quiet))
        longest = max(map(len, cells.columns), default=1)
        needed = lines.horizontalAdvance("0" * min(longest, 3))
        every = 1 if cells.words else max(1, -(-round(needed) // round(self._width)))
        # Above cells without text, titles are not elided and may overlap neighbouring columns.
        for column in columns if cells.words else range(len(cells.columns)):
            box, title = QRectF(self.rect_of(0, column)), cells.columns[column]
            box.setTop(0)
            box.setBottom(self._top - 2)
            if cells.words:
                short = lines.elidedText(title, Qt.TextElideMode.ElideRight, box.width() - 4)
                painter.drawText(box.adjusted(2, 0, -2, 0), ALIGN_LEFT, short)
            elif cells.gap_column and column >= cells.gap_column:
                box.setLeft(box.right() - lines.horizontalAdvance(title) - 1)
                painter.drawText(box, ALIGN_RIGHT | Qt.TextFlag.TextDontClip, title)
            elif column % every == 0 and not self._is_under_last_title(column):
                painter.drawText(box, ALIGN_CENTRE | Qt.TextFlag.TextDontClip, title)

    def _is_under_last_title(self, column: int) -> bool:
        """Return whether the title of the separate column needs the room above another column."""
        cells = self.cells
        if cells is None or not cells.gap_column:
            return False
        last = self._column_left(len(cells.columns)) - font_metrics(10).horizontalAdvance(
            cells.columns[-1]
        )
        return self._column_left(column) + self._width > last

    def _titled_rows(self, cells: ColouredTable) -> list[int]:
        """Return the rows with titles: the highlighted, the last, and others at equal distances."""
        every = max(1, math.ceil(0.8 * font_metrics(10).height() / self._height))
        fixed = [len(cells.rows) - 1]
        if cells.highlighted_row is not None:
            fixed.append(cells.highlighted_row)
        others = range(0, len(cells.rows), every)
        near = (row for row in others if all(abs(row - one) >= every for one in fixed))
        if cells.highlighted_row is not None and 0 < fixed[0] - fixed[1] < every:
            fixed = fixed[1:]
        return [*near, *fixed]

    # ------------------------------------------------------------------ input

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = self._cell_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and place is not None:
            self._focused = place
            self.viewport().update()
            self.chosen.emit(*place)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        place = self._focused if is_by_key else self._cell_at(QPointF(event.pos()))
        if self.cells is None or place is None:
            return
        at = self.rect_of(*place).center() if is_by_key else event.pos()
        show = MenuEntry("show", "Show in the heatmaps", partial(self.chosen.emit, *place))
        copy = MenuEntry("copy_table", "Copy table", self._copy_table)
        open_context_menu(self, [[show], [copy]], self.viewport().mapToGlobal(at))

    def _copy_table(self) -> None:
        if self.cells:
            QGuiApplication.clipboard().setText(self.cells.as_tsv())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, cells = Qt.Key(event.key()), self.cells
        if cells is None:
            super().keyPressEvent(event)
        elif event.matches(QKeySequence.StandardKey.Copy):
            self._copy_table()
        elif key in ARROW_STEPS and not event.modifiers():
            row, column = (at + by for at, by in zip(self._focused, ARROW_STEPS[key], strict=True))
            if 0 <= row < len(cells.rows) and 0 <= column < len(cells.columns):
                self._focus_cell((row, column), self._side, self._top)
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.chosen.emit(*self._focused)
        else:
            super().keyPressEvent(event)


class TableColourBar(QWidget):
    """The colours of a table from its lowest to its highest value, and the unit of the values."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._cells: ColouredTable | None = None
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        return QSize(round(120 * text_scale()), round(2 * font_metrics(10).height()) + 4)

    def show_table_scale(self, cells: ColouredTable | None, theme: Theme) -> None:
        """Show the colour scale of a table."""
        self._cells, self._theme = cells, theme
        self.setVisible(cells is not None)
        if cells is not None:
            ends = f"{format_two_decimals(cells.low)} to {format_two_decimals(cells.high)}"
            set_accessible_value(self, f"{cells.unit}, {ends}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        cells = self._cells
        if cells is None:
            return
        painter, lines = QPainter(self), font_metrics(10)
        painter.setFont(scaled_font(10))
        painter.setPen(QColor(self._theme.quiet))
        low, high = format_two_decimals(cells.low), format_two_decimals(cells.high)
        left, right = (lines.horizontalAdvance(end) + 6 for end in (low, high))
        line = lines.height()
        width = min(self.width() - left - right, 160 * text_scale())
        ramp = np.arange(MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
        bar = QRectF(left, 0.25 * line, max(1.0, width), 0.5 * line)
        painter.drawImage(bar, create_colour_image(ramp, cells.map_name, self._theme))
        painter.drawText(QRectF(0, 0, left, line), ALIGN_LEFT, low)
        painter.drawText(QRectF(bar.right() + 6, 0, right, line), ALIGN_LEFT, high)
        short = lines.elidedText(cells.unit, Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(QRectF(0, line + 2, self.width(), line), ALIGN_LEFT, short)
        painter.end()
