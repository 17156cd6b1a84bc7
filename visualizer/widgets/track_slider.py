"""Base class of custom-painted sliders that respond to clicks anywhere on their track."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QSlider

from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent

DEFAULT_WIDTH_PX = 400


class TrackSlider(QSlider):
    """Slider that can be clicked or dragged; it emits the position but does not move by itself."""

    def __init__(self, name: str, keys: str, narrowest: int) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(name)
        self.setAccessibleDescription(keys)
        self._narrowest = narrowest
        self._theme: Theme = LIGHT

    @property
    def preferred_height(self) -> float:
        """Height in pixels."""
        raise NotImplementedError

    def point_at(self, x: float) -> None:
        """Handle the position of the pointer, in pixels from the left edge."""
        raise NotImplementedError

    def sizeHint(self) -> QSize:
        return QSize(DEFAULT_WIDTH_PX, round(self.preferred_height))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._narrowest, round(self.preferred_height))

    def paint_focus(self, painter: QPainter) -> None:
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self._theme.accent))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.point_at(event.position().x())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)
