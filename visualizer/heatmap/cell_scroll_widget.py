"""The scroll area of the heatmaps and the line view, with pointing, clicks and arrow keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QColor, QCursor, QPainter, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QSizePolicy, QWidget

from visualizer.widgets.input_filters import has_command_modifier
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent

    from visualizer.session.cell_address import Cell
    from visualizer.session.view_options import LineViewToken

ARROW_STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}

LEAVE_DELAY_MS = 50
"""Delay in milliseconds before hovering ends after the pointer has left a cell.

The delay gives an opening dialog time to be painted first.
"""

# Only keyboard focus is shown, because a click needs no focus frame.
KEYBOARD_FOCUS_REASONS = {
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
}


class _LeaveSignalViewport(QWidget):
    """The viewport on which cells are painted; it emits `left` when the pointer leaves."""

    left = Signal()

    def leaveEvent(self, event: QEvent) -> None:
        self.left.emit()


class CellScrollArea(QAbstractScrollArea):
    """Emits signals for hovering, clicks and arrow keys; subclasses map points to cells.

    `cellHovered` and `cellClicked` are emitted with a `Cell` or None; `moved` is emitted with the
    number of rows to move down and the number of columns to move right.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Chart
    cellHovered = Signal(object)
    cellClicked = Signal(object)
    moved = Signal(int, int)
    painted = Signal()
    """Emitted after a frame is painted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "plot")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        viewport = _LeaveSignalViewport()
        self.leave_timer = QTimer(self, singleShot=True, interval=LEAVE_DELAY_MS)
        """Started when the pointer leaves."""
        self.leave_timer.timeout.connect(self.clear_hovered_cell)
        viewport.left.connect(self.leave_timer.start)
        self.setViewport(viewport)
        viewport.setMouseTracking(True)
        self._theme: Theme = LIGHT
        self._pointed: Cell | LineViewToken | None = None
        self._is_marked = False
        self._later = QTimer(self, singleShot=True, interval=0)
        """Started when another cell may be under the pointer."""
        self._later.timeout.connect(self._hover_again)

    def _hover_at(self, point: QPointF) -> None:
        """Emit the cell under a point of the viewport, if it differs from the last one."""
        raise NotImplementedError

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.leave_timer.stop()
        self._hover_at(event.position())

    def clear_hovered_cell(self) -> None:
        self._pointed = None
        self.cellHovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = ARROW_STEPS.get(Qt.Key(event.key()))
        if step and not has_command_modifier(event):
            self.moved.emit(*step)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._show_focus_frame(event.reason() in KEYBOARD_FOCUS_REASONS)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._show_focus_frame(False)

    def _show_focus_frame(self, is_marked: bool) -> None:
        self._is_marked = is_marked
        self.viewport().update()

    def _paint_focus_frame(self, painter: QPainter) -> None:
        if self._is_marked:
            painter.resetTransform()
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.viewport().rect().adjusted(1, 1, -1, -1))

    def scrollContentsBy(self, across: int, down: int) -> None:
        self.viewport().update()
        self._hover_again()

    def _hover_again(self) -> None:
        if self.viewport().underMouse():
            self._hover_at(QPointF(self.viewport().mapFromGlobal(QCursor.pos())))
