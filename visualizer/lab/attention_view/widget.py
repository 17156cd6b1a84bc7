"""The attention of a model in training: heatmaps of all layers and heads, and notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QWidget

from visualizer.heatmap.highlights import Highlights
from visualizer.heatmap.widget import BoardView
from visualizer.lab.attention_view.layout import lay_out_layers
from visualizer.lab.attention_view.presenter import layer_head_index
from visualizer.widgets.accessibility import (
    Politeness,
    announce,
    set_accessible_value,
)
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent

    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.lab.attention_view.presenter import LabAttentionPanel
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

HINT = "Point at a cell to see its weight; double-click to open its layer and head."
EMPTY_HIGHLIGHTS = Highlights()


class LabAttentionView(QWidget):
    """Shows the heatmaps of all layers and heads, and emits the cells that the user points at.

    `cellHovered` and `cellClicked` carry a `Cell` or None, `moved` carries a number of rows down
    and of columns to the right, and `roomChanged` carries the number of cells that fit along the
    side of a panel.
    """

    cellHovered = Signal(object)
    cellClicked = Signal(object)
    moved = Signal(int, int)
    roomChanged = Signal(int)
    layerRequested = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.notices, self.board, self.description_label = (
            PlainTextLabel(),
            LayerBoardView(),
            PlainTextLabel(),
        )
        self.notices.setWordWrap(True)
        self.notices.setProperty("role", "notice")
        self.description_label.setProperty("role", "quiet")
        self.description_label.setContentsMargins(16, 4, 16, 4)
        self.description_label.setMinimumWidth(1)  # elide the text instead of widening the window
        self.board.setAccessibleName("Attention of all layers and heads")
        self.board.setAccessibleDescription(
            "Press the arrow keys to move between cells, Enter to open the layer, and Esc to unpin."
        )
        column = column_layout(self, (0, 0, 0, 0), spacing=0)
        for widget, stretch in ((self.notices, 0), (self.board, 1), (self.description_label, 0)):
            column.addWidget(widget, stretch)
        for name in ("cellHovered", "cellClicked", "moved", "roomChanged"):
            getattr(self.board, name).connect(getattr(self, name))
        self.board.layerRequested.connect(self.layerRequested)
        self.setFocusProxy(self.board)
        self._pinned: Cell | None = None

    def show_attention(self, panel: LabAttentionPanel, theme: Theme) -> None:
        self.notices.setText("\n".join(panel.notices))
        self.notices.setVisible(bool(panel.notices))
        self.description_label.setText(panel.description or (HINT if panel.board.columns else ""))
        self._announce_cell(panel)
        self.board.show_board(panel.board, panel.cursor, EMPTY_HIGHLIGHTS, theme, panel.message)

    def _announce_cell(self, panel: LabAttentionPanel) -> None:
        """Announce a cell to screen readers if it was selected with the keyboard, not hovered."""
        set_accessible_value(self.board, panel.description or panel.message)
        pinned, self._pinned = self._pinned, panel.cursor.pinned
        by_hand = panel.cursor.hovered is None and self.board.hasFocus()
        if panel.description and panel.cursor.pinned != pinned and by_hand:
            announce(self.board, panel.description, Politeness.Assertive)


class LayerBoardView(BoardView):
    """The heatmaps of all layers and heads; a double click or the Enter key opens a layer."""

    layerRequested = Signal(int, int)
    """Emitted with the layer and the head to open, both counted from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.enlarged.connect(self._request_layer_of_cell)

    def _compute_layout(self, width: float, height: float, ratio: float) -> BoardLayout:
        return lay_out_layers(self.board, width, height, ratio)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            slot = self.slot_at(event.position())
            self._request_layer_of_cell(
                self.nearest_cell(slot, QPointF(event.position())) if slot else None
            )

    def _request_layer_of_cell(self, cell: Cell | None) -> None:
        place = layer_head_index(self.board, cell) if cell else None
        if place:
            self.layerRequested.emit(*place)
