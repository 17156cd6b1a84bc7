"""A thin line that shows that a computation is in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QWidget

from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

# Shorter work would only make the line flicker.
DELAY_MS = 150
READY, WORKING = "All computed", "Numbers are on their way"


class ProgressLine(QWidget):
    """The line between stage bar and heatmaps: a hairline, or the accent colour while working."""

    ACCESSIBLE_ROLE = QAccessible.Role.ProgressBar

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(2)
        self.setAccessibleName("Progress")
        self._theme = LIGHT
        self.is_shown_working = False
        set_accessible_value(self, READY)
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(DELAY_MS)
        self._delay.timeout.connect(self._show_working)

    def show_working(self, is_working: bool, theme: Theme) -> None:
        """Set whether a computation is in progress."""
        self._theme = theme
        if is_working and not self._delay.isActive() and not self.is_shown_working:
            self._delay.start()
        if not is_working:
            self._delay.stop()
            self.is_shown_working = False
            set_accessible_value(self, READY)
        self.update()

    def _show_working(self) -> None:
        self.is_shown_working = True
        set_accessible_value(self, WORKING)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colour = self._theme.accent if self.is_shown_working else self._theme.hairline
        height = 2 if self.is_shown_working else 1
        painter.fillRect(0, 2 - height, self.width(), height, QColor(colour))
        painter.end()
