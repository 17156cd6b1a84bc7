"""The attention of a model in training: its heatmaps, what must be known of them, the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.state.playback.lights import Lights
from visualizer.ui.accessible import Politeness, announce, install, tell
from visualizer.ui.lab.layer_board import LayerBoard
from visualizer.ui.labels import PlainLabel

if TYPE_CHECKING:
    from visualizer.state.lab.attention import AttentionPanel
    from visualizer.state.view import Cell
    from visualizer.ui.theme import Theme

HINT = "Point at a cell to read it; double-click to open its layer and head."
NO_LIGHTS = Lights()


class AttentionView(QWidget):
    """All layers and heads; where a hand points is said to who keeps it.

    `cellHovered` and `cellClicked` carry a `Cell` or None, `walked` rows down and columns right,
    `roomChanged` how many cells a panel's side has room for.
    """

    cellHovered = Signal(object)
    cellClicked = Signal(object)
    walked = Signal(int, int)
    roomChanged = Signal(int)
    painted = Signal()
    layerWanted = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.notices, self.board, self.said = PlainLabel(), LayerBoard(), PlainLabel()
        self.notices.setWordWrap(True)
        self.notices.setProperty("role", "notice")
        self.said.setProperty("role", "quiet")
        self.said.setContentsMargins(16, 4, 16, 4)
        self.said.setMinimumWidth(1)  # it is cut off rather than the window widened
        self.board.setAccessibleName("Attention of all layers and heads")
        self.board.setAccessibleDescription(
            "Arrow keys walk from cell to cell; Enter opens its layer; Escape lets go."
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget, stretch in ((self.notices, 0), (self.board, 1), (self.said, 0)):
            column.addWidget(widget, stretch)
        for name in ("cellHovered", "cellClicked", "walked", "roomChanged", "painted"):
            getattr(self.board, name).connect(getattr(self, name))
        self.board.layerWanted.connect(self.layerWanted)
        self.setFocusProxy(self.board)
        self._pinned: Cell | None = None
        install()

    def show_attention(self, panel: AttentionPanel, theme: Theme) -> None:
        """Show heatmaps under a cursor."""
        self.notices.setText("\n".join(panel.notices))
        self.notices.setVisible(bool(panel.notices))
        self.said.setText(panel.said or (HINT if panel.board.columns else ""))
        self._tell(panel)
        self.board.show_board(panel.board, panel.cursor, NO_LIGHTS, theme, panel.message)

    def _tell(self, panel: AttentionPanel) -> None:
        """Have readers of the screen say where the keys lead; not what the pointer passes by."""
        tell(self.board, panel.said or panel.message)
        pinned, self._pinned = self._pinned, panel.cursor.pinned
        by_hand = panel.cursor.hovered is None and self.board.hasFocus()
        if panel.said and panel.cursor.pinned != pinned and by_hand:
            announce(self.board, panel.said, Politeness.Assertive)
