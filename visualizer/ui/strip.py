"""A row of controls that can be scrolled sideways where the window is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from visualizer.ui.labels import PlainLabel
from visualizer.ui.theme import text_scale
from visualizer.ui.tooltips import plain_tooltip

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent, QWheelEvent


class Strip(QScrollArea):
    """One row, of a height at the usual text size."""

    def __init__(self, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
        self.updateGeometry()  # a bar to scroll with takes height of its own

    def wheelEvent(self, event: QWheelEvent) -> None:
        bar = self.horizontalScrollBar()
        turned = event.angleDelta()
        bar.setValue(bar.value() - (turned.x() or turned.y()))


class Line(PlainLabel):
    """A line that takes what room there is; the whole of it is in its tip."""

    def __init__(self, towards: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:
        super().__init__()
        self.setAlignment(towards | Qt.AlignmentFlag.AlignVCenter)
        self._told, self._in_words = "", ""
        self.setProperty("role", "quiet")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setIndent(4)

    def tell(self, told: str, in_words: str = "") -> None:
        """Show a sentence, or what stands for it in short."""
        self._told, self._in_words = told, in_words or told
        self.setToolTip(plain_tooltip(self._in_words))
        self.setAccessibleName(self._in_words)
        room = self.contentsRect().width() - 2 * self.indent()
        self.setText(self.fontMetrics().elidedText(told, Qt.TextElideMode.ElideRight, room))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.tell(self._told, self._in_words)
