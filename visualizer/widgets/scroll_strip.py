"""A row of controls that scrolls sideways where the window is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QSizePolicy

from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent, QWheelEvent


class ScrollStrip(QScrollArea):
    """A scrolling row with a fixed height at the usual text size."""

    def __init__(self, height: int) -> None:
        super().__init__()
        self._height = height
        self.setProperty("role", "strip")
        self.setWidgetResizable(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def sizeHint(self) -> QSize:
        inner = self.widget()
        needs_bar = inner is not None and inner.sizeHint().width() > self.width()
        bar = self.horizontalScrollBar().sizeHint().height() if needs_bar else 0
        return QSize(400, round(self._height * text_scale()) + bar)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.updateGeometry()  # the scroll bar adds to the height

    def wheelEvent(self, event: QWheelEvent) -> None:
        bar = self.horizontalScrollBar()
        turned = event.angleDelta()
        bar.setValue(bar.value() - (turned.x() or turned.y()))
