"""The track of playback: a segment a stage, filled as far as it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QPainter

from visualizer.state.playback.transport import Transport
from visualizer.ui.accessible import tell
from visualizer.ui.focus import SHOWS_OWN_FOCUS
from visualizer.ui.groove import Groove
from visualizer.ui.manners import is_command
from visualizer.ui.segments import Segments, paint_track, track_height

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QPaintEvent, QWheelEvent
    from PySide6.QtWidgets import QWidget

    from visualizer.ui.theme import Theme

LARGEST = 2**31 - 1

# By keys: so many steps, or so many stages.
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
STAGES = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}


class Track(Groove):
    """Where playback stands; click a stage or drag to go elsewhere."""

    ACCESSIBLE_ROLE = QAccessible.Role.Slider
    sought = Signal(object)
    stepped = Signal(int)
    skipped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        keys = "Left and right go by a step, up and down by a stage."
        super().__init__("Step", keys, 120, parent)
        self.setProperty(SHOWS_OWN_FOCUS, True)
        self._transport = Transport()

    @property
    def tall(self) -> float:
        return track_height()

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
        self.paint_focus(painter)
        painter.end()

    # ------------------------------------------------------------------ the hand

    def point_at(self, x: float) -> None:
        position = self._segments.position_at(x)
        if position != self._transport.position:
            self.sought.emit(position)

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
