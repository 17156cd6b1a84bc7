"""A brush in the hand: while the mask is painted, the mouse paints where it else pins or moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent

from visualizer.state.painting import target_of
from visualizer.ui.manners import is_command
from visualizer.ui.pointed import STEPS

if TYPE_CHECKING:
    from visualizer.state.painting import Painting
    from visualizer.ui.board import BoardView
    from visualizer.ui.slots import Slot

SHIFT = Qt.KeyboardModifier.ShiftModifier
PRESSES = {QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick}


class HandBrush(QObject):
    """Turns what mouse and keys do at the heatmaps into strokes."""

    begun = Signal(object, bool)
    """A cell, and whether what it is is to be spread."""
    swept = Signal(object)
    ended = Signal()
    extended = Signal(int, int)
    left = Signal()

    def __init__(self, board: BoardView) -> None:
        super().__init__(board)
        self._board = board
        self._painting: Painting | None = None
        self._slot: Slot | None = None

    def show_painting(self, painting: Painting | None) -> None:
        """Take the brush into the hand, or out of it."""
        before, self._painting = self._painting, painting
        self._board.show_fresh(painting.fresh if painting else {})
        if bool(painting) == bool(before):
            return
        for widget in (self._board, self._board.viewport()):
            if painting:
                widget.installEventFilter(self)
            else:
                widget.removeEventFilter(self)
        if painting:
            self._board.viewport().setCursor(Qt.CursorShape.CrossCursor)
        else:
            self._end()
            self._board.viewport().unsetCursor()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent):
            return watched is self._board.viewport() and self._take_mouse(event)
        if isinstance(event, QKeyEvent):
            return watched is self._board and self._take_key(event)
        if event.type() == QEvent.Type.Wheel:
            self._end()  # another part of the picture may come under the hand
        return event.type() == QEvent.Type.ContextMenu

    # ------------------------------------------------------------------ the mouse

    def _take_mouse(self, event: QMouseEvent) -> bool:
        if event.type() in PRESSES:
            return self._press(event)
        if self._slot is None:
            return False
        if event.type() == QEvent.Type.MouseMove:
            self.swept.emit(self._board.cell_nearest(self._slot, event.position()))
            return False  # it is still pointed at
        self._end()
        return True

    def _press(self, event: QMouseEvent) -> bool:
        slot = self._board.slot_at(event.position())
        targets = self._painting.targets if self._painting else frozenset()
        is_right = event.button() == Qt.MouseButton.RightButton
        if slot is None or target_of(slot.heatmap) not in targets:
            return False
        if self._slot is None and (is_right or event.button() == Qt.MouseButton.LeftButton):
            self._slot = slot  # and where it is now: numbers on their way may move it
            spreads = is_right or bool(event.modifiers() & SHIFT)
            self.begun.emit(self._board.cell_nearest(slot, event.position()), spreads)
        return True

    def _end(self) -> None:
        if self._slot is not None:
            self._slot = None
            self.ended.emit()

    # ------------------------------------------------------------------ the keys

    def _take_key(self, event: QKeyEvent) -> bool:
        if event.type() == QEvent.Type.KeyRelease and event.key() == Qt.Key.Key_Shift:
            self.ended.emit()
        if event.type() != QEvent.Type.KeyPress or is_command(event):
            return False
        step = STEPS.get(Qt.Key(event.key()))
        if step and event.modifiers() & SHIFT:
            self.extended.emit(*step)
            return True
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            return True
        return False
