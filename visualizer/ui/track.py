"""The track of playback: a segment a stage, filled as far as it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from visualizer.state.playback.transport import Transport
from visualizer.ui.accessible import tell
from visualizer.ui.manners import is_command
from visualizer.ui.segments import Segments, paint_track, track_height
from visualizer.ui.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QWheelEvent

LARGEST = 2**31 - 1

# By keys: so many steps, or so many stages.
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
STAGES = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}


class Track(QSlider):
    """Where playback stands; click a stage or drag to go elsewhere."""

    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(120)
        self.setAccessibleName("Step")
        self.setAccessibleDescription("Left and right go by a step, up and down by a stage.")
        self._transport = Transport()
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        return QSize(400, round(track_height()))

    minimumSizeHint = sizeHint

    def show_transport(self, transport: Transport, theme: Theme) -> None:
        """Show where playback stands."""
        if transport is self._transport and theme is self._theme:
            return
        self._transport, self._theme = transport, theme
        largest = min(max(1, transport.count), LARGEST)
        self.setRange(0, largest)
        self.setValue(transport.position * largest // max(1, transport.count))
        tell(self, transport.where or "Everything is computed")
        self.update()

    @property
    def _segments(self) -> Segments:
        return Segments(self._transport, self.width())

    def x_of(self, position: int) -> float:
        """Give where a step is on the track."""
        return self._segments.x_of(position)

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._transport.stops:
            return
        painter = QPainter(self)
        paint_track(painter, self._segments, self._theme)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self._theme.accent))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    # ------------------------------------------------------------------ the hand

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            position = self._segments.position_at(event.position().x())
            if position != self._transport.position:
                self.sought.emit(position)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.stepped.emit(-1 if event.angleDelta().y() > 0 else 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if is_command(event):
            event.ignore()
        elif key in STEPS:
            self.stepped.emit(STEPS[key])
        elif key in STAGES:
            self.skipped.emit(STAGES[key])
        else:
            event.ignore()
