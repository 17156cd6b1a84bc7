"""Turns mouse and keyboard input in the heatmaps into strokes of the mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent

from visualizer.heatmap.cell_pointing_widget import STEPS
from visualizer.heatmap.panel_and_board_types import target_of
from visualizer.widgets.input_filters import is_command

if TYPE_CHECKING:
    from visualizer.features.mask_editor.presenter import MaskEditPanel
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.widget import BoardView


SHIFT = Qt.KeyboardModifier.ShiftModifier
PRESSES = {QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick}


class MaskStrokeController(QObject):
    """Event filter that turns mouse and key events of the heatmaps into strokes."""

    begun = Signal(object, bool)
    """The first cell, and whether the stroke copies its value."""
    swept = Signal(object)
    ended = Signal()
    extended = Signal(int, int)
    left = Signal()

    def __init__(self, board: BoardView) -> None:
        super().__init__(board)
        self._board = board
        self._panel: MaskEditPanel | None = None
        self._slot: PanelSlot | None = None

    def show_mask_edit(self, panel: MaskEditPanel | None) -> None:
        """Install the event filter, or remove it without a panel."""
        before, self._panel = self._panel, panel
        self._board.show_mask_changes(panel.fresh if panel else {})
        if bool(panel) == bool(before):
            return
        for widget in (self._board, self._board.viewport()):
            if panel:
                widget.installEventFilter(self)
            else:
                widget.removeEventFilter(self)
        if panel:
            self._board.viewport().setCursor(Qt.CursorShape.CrossCursor)
        else:
            self._end_stroke()
            self._board.viewport().unsetCursor()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent):
            return watched is self._board.viewport() and self._handle_mouse(event)
        if isinstance(event, QKeyEvent):
            return watched is self._board and self._handle_key(event)
        if event.type() == QEvent.Type.Wheel:
            self._end_stroke()  # other cells may scroll under the pointer
        return event.type() == QEvent.Type.ContextMenu

    # ------------------------------------------------------------------ mouse

    def _handle_mouse(self, event: QMouseEvent) -> bool:
        if event.type() in PRESSES:
            return self._handle_press(event)
        if self._slot is None:
            return False
        if event.type() == QEvent.Type.MouseMove:
            self.swept.emit(self._board.cell_nearest(self._slot, event.position()))
            return False  # hovering continues
        self._end_stroke()
        return True

    def _handle_press(self, event: QMouseEvent) -> bool:
        slot = self._board.slot_at(event.position())
        targets = self._panel.targets if self._panel else frozenset()
        is_right = event.button() == Qt.MouseButton.RightButton
        if slot is None or target_of(slot.heatmap) not in targets:
            return False
        if self._slot is None and (is_right or event.button() == Qt.MouseButton.LeftButton):
            self._slot = slot  # with its current rectangle: a pending result may move it
            spreads = is_right or bool(event.modifiers() & SHIFT)
            self.begun.emit(self._board.cell_nearest(slot, event.position()), spreads)
        return True

    def _end_stroke(self) -> None:
        if self._slot is not None:
            self._slot = None
            self.ended.emit()

    # ------------------------------------------------------------------ keyboard

    def _handle_key(self, event: QKeyEvent) -> bool:
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
