"""The Heads pane: which head looks at what, in sentences and as a table that can be sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visualizer.state.measures import HEADS
from visualizer.ui.accessible import tell
from visualizer.ui.head_table import HeadView
from visualizer.ui.labels import PlainLabel
from visualizer.ui.theme import LIGHT, Theme, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

    from visualizer.state.measures import HeadTable
    from visualizer.state.screen import Screen

EMPTY = "What each head looks at stands here, as soon as there are weights that are not hidden."
WIDTH = 252


class HeadsPane(QWidget):
    """What the heads look at; `headChosen` names one to be seen alone."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    headChosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Heads")
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 8)
        column.setSpacing(6)
        self.said, self.lead = PlainLabel(), PlainLabel()
        self.view = HeadView()
        self.view.headOpened.connect(self.headChosen)
        for label in (self.said, self.lead):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        self.lead.setProperty("role", "quiet")
        column.addWidget(self.view, 1)
        column.addStretch()
        self._shown: tuple[HeadTable | None, Theme] | None = None
        self.show_heads(None, LIGHT)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show what the heads of a screen look at."""
        self.show_heads(screen.panel(HEADS), theme)

    def show_heads(self, table: HeadTable | None, theme: Theme) -> None:
        """Show what heads look at, or what would be said here."""
        if self._shown and self._shown[0] is table and self._shown[1] == theme:
            return
        self._shown = (table, theme)
        said = "\n".join(table.sentences) if table else EMPTY
        tell(self, said)
        self.said.setText(said.replace(" %", "\N{NO-BREAK SPACE}%"))
        self.said.setVisible(bool(said))
        self.lead.setText(table.lead if table else "")
        self.lead.setVisible(table is not None)
        self.view.setVisible(table is not None and bool(table.rows))
        self.view.show_table(table, theme)
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Keep the sentences whole, and no higher: a dock does not ask how high they are."""
        margins = self._column.contentsMargins()
        width = self.width() - margins.left() - margins.right()
        for label in (self.said, self.lead):
            label.setMinimumHeight(0)  # else it counts as a height that is needed
            label.setFixedHeight(max(0, label.heightForWidth(width)))
