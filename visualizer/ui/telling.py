"""A line to be read from the back of a room: as large as fits the width."""

from __future__ import annotations

from html import unescape
from re import sub
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF
from PySide6.QtWidgets import QLabel, QSizePolicy

from visualizer.ui.theme import font, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

SIZES = (20, 18, 16, 14)


class TellingLabel(QLabel):
    """One line of HTML; only what is too long at the smallest size is broken into two."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._told = ""
        self.setTextFormat(Qt.TextFormat.RichText)
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
        plain = unescape(sub("<[^>]*>", "", self._told))
        widths = {
            size: QFontMetricsF(font(size, QFont.Weight.DemiBold)).horizontalAdvance(plain)
            for size in SIZES
        }
        fitting = next((size for size in SIZES if widths[size] <= room), SIZES[-1])
        self.setWordWrap(widths[fitting] > room)
        pixels = round(fitting * text_scale())
        self.setText(f"<span style='font-size:{pixels}px'>{self._told}</span>")
        self.updateGeometry()
