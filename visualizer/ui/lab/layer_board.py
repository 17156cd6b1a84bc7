"""The heatmaps of all layers and heads under the hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt, Signal

from visualizer.state.lab.pointing import place_of
from visualizer.ui.board import BoardView
from visualizer.ui.lab.layer_layout import lay_out_layers, layer_room
from visualizer.ui.manners import is_command

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent

    from visualizer.state.view import Cell
    from visualizer.ui.slots import Layout

ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class LayerBoard(BoardView):
    """Heatmaps of which each is a layer's and a head's, to be opened."""

    layerWanted = Signal(int, int)
    """The layer and the head, counted from 0."""

    def _room(self, width: float, height: float, ratio: float) -> int:
        return layer_room(self._board, width, height, ratio)

    def _placed(self, width: float, height: float, ratio: float) -> Layout:
        return lay_out_layers(self._board, width, height, ratio)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            slot = self.slot_at(event.position())
            self._want(self.cell_nearest(slot, QPointF(event.position())) if slot else None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in ENTER and not is_command(event):
            self._want(self._cursor.pinned or self._cursor.hovered)
        else:
            super().keyPressEvent(event)

    def _want(self, cell: Cell | None) -> None:
        place = place_of(self._board, cell) if cell else None
        if place:
            self.layerWanted.emit(*place)
