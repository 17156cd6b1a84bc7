"""The heatmaps in the window: laid out, drawn once, kept as pictures, lit by the cursor."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPixmap

from visualizer.state.cursor import Cursor, is_own
from visualizer.state.painting import target_of
from visualizer.state.panels import Board, Heatmap
from visualizer.state.playback.lights import Lights
from visualizer.ui import captions
from visualizer.ui import heatmap as draw
from visualizer.ui.cover import paint_lights
from visualizer.ui.frames import Frames
from visualizer.ui.freshly import paint_fresh
from visualizer.ui.layout import lay_out, room
from visualizer.ui.light import is_seen, paint_cursor
from visualizer.ui.minimap import Minimap
from visualizer.ui.pointed import PointedArea
from visualizer.ui.slots import Layout, Slot
from visualizer.ui.theme import font

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QPaintEvent, QResizeEvent
    from PySide6.QtWidgets import QWidget

    from visualizer.state.painting import Drawn, Fresh
    from visualizer.state.view import Cell
    from visualizer.ui.theme import Theme


class Canvas(PointedArea):
    """All panels of a board."""

    roomChanged = Signal(int)
    arranged = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Heatmaps")
        self.setAccessibleDescription("Arrow keys walk from cell to cell; Escape lets go.")
        self._board = Board()
        self._cursor = Cursor()
        self._lights = Lights()
        self._fresh: Mapping[Drawn, Fresh] = {}
        self._message = ""
        self._is_stale = False
        self._layout = Layout((), 0, 0, 0)
        # All of it is filled with paper: Qt need not clear it first.
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.minimap = Minimap(self.viewport())
        self._pictures: dict[int, tuple[Heatmap, QPixmap]] = {}
        self._frames = Frames()

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
        self.minimap.show_board(board, lights, theme)
        if cursor != before or lights is not lit_before:
            self._paint_soon()
        if is_pinned_anew:
            self._see(cursor.pinned)
        elif lights is not lit_before:
            self._see(lights.leading)

    def show_fresh(self, fresh: Mapping[Drawn, Fresh]) -> None:
        """Show cells that were painted before their numbers are there."""
        if fresh or self._fresh:
            self._fresh = fresh
            self._paint_soon()

    def paint_now(self) -> None:
        """Paint what has changed before anything else is done: it is what the eye is on."""
        if self._is_stale and self.isVisible():
            self.viewport().repaint()

    def _paint_soon(self) -> None:
        self._is_stale = True
        self.viewport().update()

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
        self.roomChanged.emit(self._room(width, height, ratio))
        old = {id(slot.heatmap): slot for slot in self._layout.slots}
        self._layout = self._placed(width, height, ratio)
        unmoved = {
            id(slot.heatmap)
            for slot in self._layout.slots
            if not is_new_theme and _looks_alike(old.get(id(slot.heatmap)), slot)
        }
        self._pictures = {key: kept for key, kept in self._pictures.items() if key in unmoved}
        self._set_ranges()
        self._place_minimap()
        self._paint_soon()
        self.arranged.emit()

    def _room(self, width: float, height: float, ratio: float) -> int:
        return room(self._board, width, height, ratio)

    def _placed(self, width: float, height: float, ratio: float) -> Layout:
        return lay_out(self._board, width, height, ratio)

    def _place_minimap(self) -> None:
        self.minimap.resize(self.minimap.sizeHint())
        corner = self.viewport().rect().bottomRight() - QPoint(12, 12)
        self.minimap.move(corner - self.minimap.rect().bottomRight())

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
        current = [slot for slot in self._layout.slots if self._board.is_current(slot.heatmap)]
        slots = [slot for slot in current if is_seen(slot.heatmap, cell)]
        own = [slot for slot in slots if is_own(slot.heatmap, cell)]
        return next(((slot, cell) for slot in (*own, *slots)), None)

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
        self._is_stale = False
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
                fresh = self._fresh.get((*target_of(slot.heatmap), slot.heatmap.text))
                if fresh:
                    paint_fresh(painter, slot, fresh, self._theme)
                if self._board.is_current(slot.heatmap):
                    paint_lights(painter, slot, self._lights, self._theme)
                    paint_cursor(painter, slot, self._cursor, self._theme)
        painter.translate(0, offset.y())
        self._paint_titles(painter)
        self._paint_mark(painter)
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

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._pictures.clear()
            self._arrange()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def _picture(self, slot: Slot, whole: QRectF) -> QPixmap:
        key = id(slot.heatmap)
        if key not in self._pictures:
            picture = self._frames.picture(slot, whole, self._theme, self.devicePixelRatioF())
            painter = QPainter(picture)
            painter.translate(-whole.topLeft())
            draw.paint_numbers(painter, slot, self._theme)
            painter.end()
            self._pictures[key] = (slot.heatmap, picture)
        return self._pictures[key][1]


def _looks_alike(old: Slot | None, new: Slot) -> bool:
    if old is None:
        return False
    return replace(old, heatmap=new.heatmap, cells=new.cells) == new
