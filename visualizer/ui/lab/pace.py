"""How fast a training goes, as a quiet line under the plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

if TYPE_CHECKING:
    from visualizer.state.lab.pace import Pace


class PaceLine(QLabel):
    """Steps done, time left, tokens a second and the learning rate; empty where nothing trains."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "quiet")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleDescription("How the training goes on")

    def show_pace(self, pace: Pace | None) -> None:
        """Show how it goes."""
        said = " · ".join(pace.facts) if pace else ""
        self.setText(said[:1].upper() + said[1:])
