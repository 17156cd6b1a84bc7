"""A label of rich text that flows into the width it has, and is laid out once."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize

from visualizer.ui.labels import RichLabel

NARROWEST = 100


class FlowLabel(RichLabel):
    """Asks for the height that its text needs; Qt's own tries several widths for every text."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self._heights: dict[int, int] = {}

    def setText(self, text: str) -> None:
        if text != self.text():
            self._heights.clear()
            super().setText(text)

    def changeEvent(self, event: QEvent) -> None:
        self._heights.clear()
        super().changeEvent(event)

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = super().heightForWidth(width)
        return self._heights[width]

    def sizeHint(self) -> QSize:
        return QSize(NARROWEST, self.heightForWidth(max(self.width(), NARROWEST)))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()
