"""The heatmaps in the window: drawn once, kept as pictures, lit by the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QAbstractScrollArea, QSizePolicy, QWidget

from visualizer.state.heatmaps import Board, Heatmap
from visualizer.state.screen import Cursor, row_role
from visualizer.state.view import Cell
from visualizer.ui import heatmap as draw
from visualizer.ui.layout import Layout, Slot, lay_out, room
from visualizer.ui.measures import is_upright
from visualizer.ui.theme import LIGHT, Theme, font

if TYPE_CHECKING:
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent

STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}


class BoardView(QAbstractScrollArea):
    """All panels of a board, in a place that scrolls."""

    cellHovered = Signal(object)
    cellClicked = Signal(object)
    walked = Signal(int, int)
    roomChanged = Signal(int)
    painted = Signal()
    """After each new frame."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Heatmaps")
        self.viewport().setMouseTracking(True)
        self._board = Board()
        self._cursor = Cursor()
        self._theme = LIGHT
        self._message = ""
        self._layout = Layout((), 0, 0, 0)
        self._pictures: dict[int, tuple[Heatmap, QPixmap]] = {}

    # ------------------------------------------------------------------ what is shown

    def show_board(self, board: Board, cursor: Cursor, theme: Theme, message: str) -> None:
        """Show panels under a cursor; `message` stands where there are none."""
        if board is not self._board or theme is not self._theme or message != self._message:
            is_new_theme = theme is not self._theme
            self._board, self._theme, self._message = board, theme, message
            self._arrange(is_new_theme)
        if cursor != self._cursor:
            self._cursor = cursor
            self.viewport().update()

    def reveal(self, cell: Cell) -> None:
        """Scroll to a cell."""
        found = self._place(cell)
        if found:
            area = found[0].cell(*cell.place[-2:]).toAlignedRect().adjusted(-24, -64, 24, 24)
            self._scroll_to(area)

    def area_of(self, cell: Cell) -> QRect | None:
        """Give the place of a cell within the viewport; None where its stage has no panel."""
        found = self._place(cell)
        if not found:
            return None
        return found[0].cell(*cell.place[-2:]).translated(-self._offset()).toAlignedRect()

    def _arrange(self, is_new_theme: bool = False) -> None:
        ratio = self.devicePixelRatioF()
        width, height = self._space()
        self.roomChanged.emit(room(self._board, width, height, ratio))
        old = {id(slot.heatmap): slot for slot in self._layout.slots}
        self._layout = lay_out(self._board, width, height, ratio)
        unmoved = {
            id(slot.heatmap)
            for slot in self._layout.slots
            if not is_new_theme and _looks_alike(old.get(id(slot.heatmap)), slot)
        }
        self._pictures = {key: kept for key, kept in self._pictures.items() if key in unmoved}
        self._set_ranges()
        self.viewport().update()

    def _space(self) -> tuple[int, int]:
        # Whether scroll bars are there or not: else their coming and going would move everything.
        size = self.maximumViewportSize()
        return size.width() - self.verticalScrollBar().sizeHint().width(), size.height()

    def _set_ranges(self) -> None:
        size, layout = self.viewport().size(), self._layout
        for bar, whole, part in (
            (self.horizontalScrollBar(), layout.width, size.width()),
            (self.verticalScrollBar(), layout.height, size.height()),
        ):
            bar.setRange(0, max(0, round(whole) - part))
            bar.setPageStep(part)
            bar.setSingleStep(40)

    def _place(self, cell: Cell) -> tuple[Slot, Cell] | None:
        head = cell.place[0] if len(cell.place) == 3 else None
        for slot in self._layout.slots:
            if slot.heatmap.stage == cell.stage and slot.heatmap.head == head:
                return slot, cell
        return None

    def _scroll_to(self, area: QRect) -> None:
        for bar, low, high, part in (
            (self.horizontalScrollBar(), area.left(), area.right(), self.viewport().width()),
            (self.verticalScrollBar(), area.top(), area.bottom(), self.viewport().height()),
        ):
            bar.setValue(min(max(bar.value(), high - part), low))

    def _offset(self) -> QPointF:
        return QPointF(self.horizontalScrollBar().value(), self.verticalScrollBar().value())

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), QColor(self._theme.paper))
        if not self._layout.slots:
            self._paint_message(painter)
        offset = self._offset()
        painter.translate(-offset)
        seen = QRectF(self.viewport().rect()).translated(offset)
        for slot in self._layout.slots:
            whole = slot.whole.adjusted(-4, -4, 4, 4)
            if whole.intersects(seen):
                painter.drawPixmap(whole.topLeft(), self._picture(slot, whole))
                self._paint_cursor(painter, slot)
        painter.translate(0, offset.y())
        self._paint_titles(painter)
        painter.end()
        self.painted.emit()

    def _paint_message(self, painter: QPainter) -> None:
        painter.setPen(QColor(self._theme.quiet))
        painter.setFont(font(14))
        painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, self._message)

    def _paint_titles(self, painter: QPainter) -> None:
        if self._layout.slots:
            head = QRectF(0, 0, max(self._layout.width, self.viewport().width()), self._layout.head)
            painter.fillRect(head, QColor(self._theme.paper))
            draw.paint_titles(painter, self._layout.titles, self._theme)

    def _picture(self, slot: Slot, whole: QRectF) -> QPixmap:
        key = id(slot.heatmap)
        if key not in self._pictures:
            ratio = self.devicePixelRatioF()
            picture = QPixmap((whole.size() * ratio).toSize())
            picture.setDevicePixelRatio(ratio)
            picture.fill(QColor(self._theme.paper))
            painter = QPainter(picture)
            painter.translate(-whole.topLeft())
            draw.paint_slot(painter, slot, self._theme)
            painter.end()
            self._pictures[key] = (slot.heatmap, picture)
        return self._pictures[key][1]

    def _paint_cursor(self, painter: QPainter, slot: Slot) -> None:
        cursor = self._cursor
        row = cursor.key if row_role(slot.heatmap.stage) == "key" else cursor.query
        column = self._lit_column(slot.heatmap)
        accent = QColor(self._theme.accent)
        self._paint_bands(painter, slot, row, column, accent)
        for cell, width in ((cursor.hovered, 1.5), (cursor.pinned, 3)):
            if cell and cell.stage == slot.heatmap.stage and _head(cell) == slot.heatmap.head:
                painter.setPen(QPen(accent, width))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(slot.cell(*cell.place[-2:]).adjusted(-0.5, -0.5, 0.5, 0.5))

    def _paint_bands(
        self, painter: QPainter, slot: Slot, row: int | None, column: int | None, accent: QColor
    ) -> None:
        painter.setPen(QPen(accent, 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        labels = font(12, QFont.Weight.DemiBold)
        if row is not None and row < len(slot.heatmap.rows.labels):
            band = slot.cell(row, 0)
            painter.drawRect(
                QRectF(slot.cells.left(), band.top(), slot.cells.width(), band.height())
            )
            if slot.has_row_labels:
                box = draw.row_label_box(slot, row)
                painter.fillRect(box.adjusted(0, 0, 4, 0), QColor(self._theme.paper))
                painter.setFont(labels)
                text = draw.shortened(slot.heatmap.rows.labels[row])
                painter.drawText(box, draw.RIGHT, text)
        if column is not None and column < len(slot.heatmap.columns.labels):
            band = slot.cell(0, column)
            painter.drawRect(
                QRectF(band.left(), slot.cells.top(), band.width(), slot.cells.height())
            )
            self._paint_lit_column_label(painter, slot, column, labels)

    def _paint_lit_column_label(
        self, painter: QPainter, slot: Slot, column: int, labels: QFont
    ) -> None:
        axis = slot.heatmap.columns
        upright = is_upright(slot.heatmap, slot.cell_width) and axis.is_token
        painter.setFont(labels)
        band = slot.cell(0, column)
        width = max(band.width(), 14) if upright else max(band.width(), 24)
        middle = band.center().x()
        box = QRectF(middle - width / 2, slot.cells.top() - slot.top + 2, width, slot.top - 3)
        painter.fillRect(box, QColor(self._theme.paper))
        draw.paint_column_label(painter, slot, column, axis.labels[column], upright)

    def _lit_column(self, heatmap: Heatmap) -> int | None:
        if heatmap.columns.name == "key":
            return self._cursor.key
        column = self._cursor.column
        return column[1] if column and column[0] == heatmap.stage else None

    # ------------------------------------------------------------------ the hand

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if cell != self._cursor.hovered:
            self.cellHovered.emit(cell)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton:
            self.cellClicked.emit(cell)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.cellHovered.emit(None)
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step:
            self.walked.emit(*step)
        elif event.key() == Qt.Key.Key_Escape:
            self.cellClicked.emit(None)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def scrollContentsBy(self, across: int, down: int) -> None:
        self.viewport().update()

    def _cell_at(self, point: QPointF) -> Cell | None:
        if point.y() < self._layout.head:
            return None
        within = point + self._offset()
        slot = self._layout.slot_at(within)
        place = slot.at(within) if slot else None
        if slot is None or place is None:
            return None
        head = () if slot.heatmap.head is None else (slot.heatmap.head,)
        return Cell(slot.heatmap.stage, (*head, *place))


def _looks_alike(old: Slot | None, new: Slot) -> bool:
    if old is None:
        return False
    sizes = (old.cell_width, old.cell_height, old.top, old.gutter, old.has_row_labels)
    return sizes == (new.cell_width, new.cell_height, new.top, new.gutter, new.has_row_labels)


def _head(cell: Cell) -> int | None:
    return cell.place[0] if len(cell.place) == 3 else None
