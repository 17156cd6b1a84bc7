"""The Lines pane: the line view, and which lines it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSpinBox, QVBoxLayout, QWidget

from visualizer.state.lines.look import FOLLOWS, MOST_OF_A_QUERY, LineLook
from visualizer.state.lines.panel import LINES, LinePanel
from visualizer.ui.controls import Decimal, show_number
from visualizer.ui.labels import PlainLabel
from visualizer.ui.lineview import LineView
from visualizer.ui.manners import teach
from visualizer.ui.theme import text_scale
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from visualizer.state.screen import Screen
    from visualizer.ui.theme import Theme

WIDTH = 290
EMPTY = "Lines from each query to the keys that it reads will be here, as soon as there are some."


class LinePane(QWidget):
    """The lines and their controls; `chosen` carries a field of `LineLook` and its new value."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    chosen = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Lines")
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self.view, self.notes = LineView(), PlainLabel()
        self.heads, self.threshold, self.top = QComboBox(), Decimal(), QSpinBox()
        self._shown: LinePanel | None = None
        self._build()

    def _build(self) -> None:
        self.threshold.setRange(0, 1)
        self.threshold.setSingleStep(0.01)
        self.threshold.setPrefix("≥ ")
        self.threshold.valueChanged.connect(self._choose_threshold)
        self.top.setRange(0, MOST_OF_A_QUERY)
        self.top.setSpecialValueText("all lines")
        self.top.setPrefix("largest ")
        self.top.valueChanged.connect(self._choose_top)
        self.heads.activated.connect(self._choose_heads)
        self.heads.setMinimumContentsLength(8)
        self.heads.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        row = QHBoxLayout()
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(8)
        for widget, name, tip, stretch in (
            (self.heads, "Heads of the lines", "Heads in the picture", 1),
            (self.threshold, "Smallest weight with a line", "Smaller weights have no line", 0),
            (self.top, "Largest of each query and head", "Lines of each query and head", 0),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(plain_tooltip(tip))
            teach(widget)
            row.addWidget(widget, stretch)
        self.notes.setProperty("role", "quiet")
        self.notes.setWordWrap(True)
        self.notes.setContentsMargins(12, 0, 12, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 8)
        column.setSpacing(8)
        column.addLayout(row)
        column.addWidget(self.view, 1)
        column.addWidget(self.notes)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show the lines of a screen, or what would be here."""
        panel = screen.panel(LINES) or LinePanel(message=EMPTY)
        self.view.show_lines(panel, theme)
        self._show_look(panel)
        # The place of what is said of lit lines is kept, or the picture would jump under the hand.
        lit = (panel.lit_note,) if panel.lines.is_thinned or panel.lit_note else ()
        self.notes.setText("\n".join((*panel.notes, *lit)))
        self.notes.setVisible(bool(panel.notes))

    def describe_cell(self, sentence: str) -> None:
        """Tell readers of the screen what is said of the cell that is pointed at."""
        self.view.setAccessibleDescription(sentence)

    def _show_look(self, panel: LinePanel) -> None:
        for widget in (self.heads, self.threshold, self.top):
            widget.setEnabled(bool(panel.labels))
        if panel.heads != self.heads.count() - 2:
            self.heads.clear()
            self.heads.addItem("All heads", None)
            self.heads.addItem("The pinned cell’s head", FOLLOWS)
            for head in range(panel.heads):
                self.heads.addItem(f"Head {head + 1}", head)
        look = panel.look
        self.heads.setCurrentIndex(self._index(look, panel.heads))
        show_number(self.threshold, look.threshold)
        show_number(self.top, look.top)

    @staticmethod
    def _index(look: LineLook, heads: int) -> int:
        if look.solo is None:
            return 0
        return 1 if look.solo == FOLLOWS else min(look.solo, heads - 1) + 2

    def _choose_heads(self, index: int) -> None:
        self.chosen.emit("solo", self.heads.itemData(index))

    def _choose_threshold(self, value: float) -> None:
        self.chosen.emit("threshold", round(value, 3))

    def _choose_top(self, value: int) -> None:
        self.chosen.emit("top", value)
