"""The heatmaps under the hand: pointing, pinning, walking, looking closer, moving on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QNativeGestureEvent
from PySide6.QtWidgets import QApplication, QWidget

from visualizer.state.cursor import cell_of
from visualizer.ui.canvas import Canvas
from visualizer.ui.focus import SHOWS_OWN_FOCUS

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent, QWheelEvent

    from visualizer.state.view import Cell
    from visualizer.ui.slots import Slot

NOTCH = 120
CLOSER = 1.25
"""How much closer one notch of the wheel goes."""
LEAST = 0.1
"""By how much fingers that meet look from further away, at once."""


class BoardView(Canvas):
    """The canvas with a hand on it."""

    textPointed = Signal(int)
    """The text of a panel that the pointer came to, where there are panels of several."""
    zoomed = Signal(float, str, float, float)
    """By how much closer, at which row and column of which stage, with their fractions."""
    dragged = Signal(str, int, int)
    """How many rows and columns of a stage the hand pulled into view, down and right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty(SHOWS_OWN_FOCUS, True)
        self._grip: tuple[Slot, QPointF, QPointF] | None = None
        self._is_dragging = False
        self._turned = 0.0
        self.arranged.connect(self._later.start)  # another cell may be under the pointer

    # ------------------------------------------------------------------ the mouse

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grip and event.buttons():
            self._drag(event.position())
        else:
            super().mouseMoveEvent(event)

    def _point(self, point: QPointF) -> None:
        cell = self._cell_at(point)
        self._tell_text(self.slot_at(point))
        if cell != self._pointed:
            self._pointed = cell
            self.cellHovered.emit(cell)

    def _tell_text(self, slot: Slot | None) -> None:
        if slot and not self._board.is_current(slot.heatmap):
            self.textPointed.emit(slot.heatmap.text)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        slot, self._is_dragging = self.slot_at(event.position()), False
        self._tell_text(slot)
        if slot and slot.heatmap.is_zoomed:  # a drag moves what is seen, a click pins
            self._grip = (slot, event.position(), event.position())
        else:
            self.cellClicked.emit(self._cell_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._grip and not self._is_dragging:
            self.cellClicked.emit(self._cell_at(event.position()))
        self._grip = None
        self.viewport().unsetCursor()

    def _drag(self, point: QPointF) -> None:
        if self._grip is None:
            return
        slot, pressed, last = self._grip
        if not self._is_dragging:
            far = (point - pressed).manhattanLength() >= QApplication.startDragDistance()
            if not far:
                return
            self._is_dragging = True
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        moved = last - point
        down = int(moved.y() / slot.cell_height)
        right = int(moved.x() / slot.cell_width)
        if down or right:
            self._grip = (
                slot,
                pressed,
                last - QPointF(right * slot.cell_width, down * slot.cell_height),
            )
            rows, columns = slot.heatmap.rows.block, slot.heatmap.columns.block
            self.dragged.emit(slot.heatmap.stage, down * rows, right * columns)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._zoom(event.position(), event.angleDelta().y())
        else:
            super().wheelEvent(event)

    def _zoom(self, point: QPointF, turned: float) -> None:
        """Look closer by whole notches; a trackpad sends small parts, which add up to them."""
        slot, turned = self.slot_at(point), self._turned + turned
        notches = int(turned / NOTCH)
        self._turned = turned - notches * NOTCH
        if slot and notches:
            within = point + self._offset()
            self.zoomed.emit(CLOSER**notches, slot.heatmap.stage, *slot.between(within))

    def viewportEvent(self, event: QEvent) -> bool:
        pinched = Qt.NativeGestureType.ZoomNativeGesture
        if isinstance(event, QNativeGestureEvent) and event.gestureType() is pinched:
            self._zoom(event.position(), NOTCH * math.log(max(1 + event.value(), LEAST), CLOSER))
            return True
        return super().viewportEvent(event)

    def slot_at(self, point: QPointF) -> Slot | None:
        """Give the panel whose cells are under a point of the viewport."""
        return (
            None if point.y() < self._layout.head else self._layout.slot_at(point + self._offset())
        )

    def _cell_at(self, point: QPointF) -> Cell | None:
        slot = self.slot_at(point)
        place = slot.at(point + self._offset()) if slot else None
        is_free = slot is None or not slot.heatmap.is_alone
        return cell_of(slot.heatmap, *place) if slot and place and is_free else None

    def cell_nearest(self, slot: Slot, point: QPointF) -> Cell:
        """Give the cell of a panel that is nearest to a point of the viewport."""
        at, area = point + self._offset(), slot.cells
        x = min(max(at.x(), area.left()), area.right())
        y = min(max(at.y(), area.top()), area.bottom())
        return cell_of(slot.heatmap, *(slot.at(QPointF(x, y)) or (0, 0)))
