"""A line to be read from the back of a room: as large as fits the width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QSizePolicy

from visualizer.ui.labels import RichLabel
from visualizer.ui.theme import font, text_scale
from visualizer.ui.told import SIZES, fitting

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent


class TellingLabel(RichLabel):
    """One line of HTML; only what is too long at the smallest size is broken into two."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._told = ""
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setAccessibleDescription(name)  # its name is what it says

    def tell(self, html: str) -> None:
        """Show a line."""
        if html != self._told:
            self._told = html
            self._fit()

    def sizeHint(self) -> QSize:
        line = round(QFontMetricsF(font(SIZES[0])).height())
        return QSize(100, self.heightForWidth(self.width()) if self.wordWrap() else line)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        room = self.contentsRect().width()
        size, is_broken = fitting(self._told, room)
        self.setWordWrap(is_broken)
        pixels = round(size * text_scale())
        self.setText(f"<span style='font-size:{pixels}px'>{self._told}</span>")
        self.updateGeometry()
