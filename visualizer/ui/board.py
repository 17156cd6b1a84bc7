"""The heatmaps in the window: drawn once, kept as pictures, lit by the cursor."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QCursor, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QAbstractScrollArea, QSizePolicy, QWidget

from visualizer.state.cursor import Cursor, cell_of
from visualizer.state.panels import Board, Heatmap
from visualizer.state.playback.lights import Lights
from visualizer.ui import captions
from visualizer.ui import heatmap as draw
from visualizer.ui.cover import paint_lights
from visualizer.ui.layout import lay_out, room
from visualizer.ui.light import is_seen, paint_cursor
from visualizer.ui.manners import is_command
from visualizer.ui.slots import Layout, Slot
from visualizer.ui.theme import LIGHT, Theme, font

if TYPE_CHECKING:
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent

    from visualizer.state.view import Cell

STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}

# Who comes by keys must see where they are; who clicks, knows.
BY_KEYS = {
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
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
        self._lights = Lights()
        self._theme = LIGHT
        self._message = ""
        self._pointed: Cell | None = None
        self._is_marked = False
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._point_again)
        self._layout = Layout((), 0, 0, 0)
        self._pictures: dict[int, tuple[Heatmap, QPixmap]] = {}

    # ------------------------------------------------------------------ what is shown

    def show_board(
        self, board: Board, cursor: Cursor, lights: Lights, theme: Theme, message: str
    ) -> None:
        """Show panels under a cursor and lights; `message` stands where there are none."""
        is_pinned_anew = cursor.pinned is not None and cursor.pinned != self._cursor.pinned
        self._cursor, before = cursor, self._cursor
        self._lights, lit_before = lights, self._lights
        if board is not self._board or theme is not self._theme or message != self._message:
            is_new_theme = theme is not self._theme
            self._board, self._theme, self._message = board, theme, message
            self._arrange(is_new_theme)
        if cursor != before or lights is not lit_before:
            self.viewport().update()
        if is_pinned_anew:
            self._see(cursor.pinned)
        elif lights is not lit_before:
            self._see(lights.leading)

    def reveal(self, cell: Cell) -> None:
        """Scroll to a cell."""
        found = self._place(cell)
        if found:
            above = round(self._layout.head) + 24  # the titles stand over the cells
            area = found[0].cell(*cell.place[-2:]).toAlignedRect().adjusted(-24, -above, 24, 24)
            with QSignalBlocker(self):  # who walks by keys looks at that cell, not at the pointer's
                self._scroll_to(area)

    def _see(self, cell: Cell | None) -> None:
        """Scroll to the cell that is pinned, or that a step is about, where it cannot be seen."""
        area = self.area_of(cell) if cell else None
        seen = self.viewport().rect().adjusted(0, round(self._layout.head), 0, 0)
        if cell and area and not seen.contains(area):
            self.reveal(cell)

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
        self._later.start()  # another cell may be under the pointer

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
        for slot in self._layout.slots:
            if is_seen(slot.heatmap, cell):
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
            whole = self._whole_pixels(slot.whole.adjusted(-4, -4, 4, 4))
            if whole.intersects(seen):
                painter.drawPixmap(whole.topLeft(), self._picture(slot, whole))
                paint_lights(painter, slot, self._lights, self._theme)
                paint_cursor(painter, slot, self._cursor, self._theme)
        painter.translate(0, offset.y())
        self._paint_titles(painter)
        if self._is_marked:
            painter.resetTransform()
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.viewport().rect().adjusted(1, 1, -1, -1))
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
            captions.paint_titles(painter, self._layout.titles, self._theme)

    def _whole_pixels(self, area: QRectF) -> QRectF:
        """Begin a picture at a pixel of the screen, or its cells would lie across two."""
        ratio = self.devicePixelRatioF()
        left, top = (math.floor(edge * ratio) / ratio for edge in (area.left(), area.top()))
        return QRectF(left, top, area.right() - left, area.bottom() - top)

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

    # ------------------------------------------------------------------ the hand

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(event.position())

    def _point(self, point: QPointF) -> None:
        cell = self._cell_at(point)
        if cell != self._pointed:
            self._pointed = cell
            self.cellHovered.emit(cell)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton:
            self.cellClicked.emit(cell)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._pointed = None
            self.cellHovered.emit(None)
        return super().viewportEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._pictures.clear()
            self._arrange()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step and not is_command(event):
            self.walked.emit(*step)
        elif event.key() == Qt.Key.Key_Escape:
            self.cellClicked.emit(None)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._mark(event.reason() in BY_KEYS)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._mark(False)

    def _mark(self, is_marked: bool) -> None:
        self._is_marked = is_marked
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def scrollContentsBy(self, across: int, down: int) -> None:
        self.viewport().update()
        self._point_again()

    def _point_again(self) -> None:
        if self.viewport().underMouse():
            self._point(QPointF(self.viewport().mapFromGlobal(QCursor.pos())))

    def _cell_at(self, point: QPointF) -> Cell | None:
        if point.y() < self._layout.head:
            return None
        within = point + self._offset()
        slot = self._layout.slot_at(within)
        place = slot.at(within) if slot else None
        if slot is None or place is None:
            return None
        return cell_of(slot.heatmap, *place)


def _looks_alike(old: Slot | None, new: Slot) -> bool:
    if old is None:
        return False
    return replace(old, heatmap=new.heatmap, cells=new.cells) == new
