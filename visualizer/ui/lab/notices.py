"""What must be known of a run: sentences, and of what broke the details to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication, QHBoxLayout, QPushButton, QWidget

from visualizer.ui.labels import PlainLabel

if TYPE_CHECKING:
    from visualizer.state.lab.run import Failure


class Notices(QWidget):
    """Sentences under the pictures, which stay where they are; not there where there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.said, self.copy = PlainLabel(), QPushButton("Copy details")
        self.said.setProperty("role", "notice")
        self.said.setWordWrap(True)
        self.copy.clicked.connect(self._copy)
        self._details = ""
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 16, 0)
        row.addWidget(self.said, 1)
        row.addWidget(self.copy)

    def show_notices(self, notices: tuple[str, ...], failure: Failure | None) -> None:
        """Show what is to be known, and first why it broke."""
        sentences = (*([failure.sentence] if failure else []), *notices)
        self._details = failure.details if failure else ""
        self.said.setText("\n".join(sentences))
        self.copy.setVisible(bool(self._details))
        self.setVisible(bool(sentences))

    def _copy(self) -> None:
        QApplication.clipboard().setText(self._details)
