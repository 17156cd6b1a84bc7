"""What stands in place of the settings while attention is shown that was computed elsewhere."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from visualizer.ui.labels import PlainLabel
from visualizer.ui.manners import teach


class CapturedCard(QWidget):
    """Says what was opened and what is missing; `left` asks for the module again."""

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.says = PlainLabel()
        self.says.setWordWrap(True)
        self.says.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.back = QPushButton("Back to a module")
        self.back.setObjectName("back to a module")
        self.back.setToolTip("Compute attention of a text again, with the settings there were")
        self.back.clicked.connect(self._leave)
        teach(self.back)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.says)
        column.addWidget(self.back, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def show_words(self, says: str) -> None:
        """Say it; nothing is to be seen where there is nothing to say."""
        if self.says.text() != says:
            self.says.setText(says)
            self.setAccessibleName(says)
        self.setVisible(bool(says))

    def _leave(self) -> None:
        self.left.emit()
