"""The axis of training time: its kept moments as dots, a knob where one looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QPainter

from visualizer.state.lab.scrub import Scrub
from visualizer.ui.accessible import tell
from visualizer.ui.groove import Groove
from visualizer.ui.lab.time_axis import TimeAxis, axis_height
from visualizer.ui.manners import is_command

if TYPE_CHECKING:
    from PySide6.QtGui import QKeyEvent, QPaintEvent, QWheelEvent
    from PySide6.QtWidgets import QWidget

    from visualizer.ui.theme import Theme

STEPS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Down: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: 1,
    Qt.Key.Key_PageDown: -5,
    Qt.Key.Key_PageUp: 5,
}


class TimeTrack(Groove):
    """Click or drag to look at another moment; `sought` carries the number of a stop."""

    ACCESSIBLE_ROLE = QAccessible.Role.Slider
    sought = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        keys = "Left and right go by a kept moment; End goes to now."
        super().__init__("Training time", keys, 72, parent)
        self._scrub = Scrub()

    @property
    def tall(self) -> float:
        return axis_height()

    def show_scrub(self, scrub: Scrub, theme: Theme) -> None:
        """Show where one looks."""
        self._scrub, self._theme = scrub, theme
        self.setRange(0, max(1, len(scrub.stops) - 1))
        self.setValue(scrub.at)
        tell(self, scrub.said)
        self.update()

    @property
    def _axis(self) -> TimeAxis:
        return TimeAxis(self._scrub, self.width())

    def x_of(self, stop: int) -> float:
        """Give where a stop is on the track."""
        return self._axis.x_of(stop)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        self._axis.paint(painter, self._theme)
        self.paint_focus(painter)
        painter.end()

    # ------------------------------------------------------------------ the hand

    def point_at(self, x: float) -> None:
        self._seek(self._axis.stop_at(x))

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._seek(self._scrub.beside(-1 if event.angleDelta().y() > 0 else 1))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, last = Qt.Key(event.key()), len(self._scrub.stops) - 1
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if is_command(event) or not (key in STEPS or key in ends):
            event.ignore()
        else:
            self._seek(ends[key] if key in ends else self._scrub.beside(STEPS[key]))

    def _seek(self, stop: int) -> None:
        if stop != self._scrub.at:
            self.sought.emit(stop)
