"""The status bar of a window, and the line that shows a computation in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QStatusBar, QWidget

from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent
    from PySide6.QtWidgets import QMainWindow


def add_status_bar(window: QMainWindow, facts: QWidget) -> QStatusBar:
    """Add a status bar to a window, with the given widget on the left.

    PySide is not notified when a status bar that Qt has created is deleted. It would mistake the
    next window's bar, at the same address, for the deleted one and delete its contents.
    """
    bar = QStatusBar(window)
    bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # same as Qt's default
    bar.addWidget(facts, 1)
    window.setStatusBar(bar)
    return bar


# During shorter computations, the line would only flicker.
PROGRESS_DELAY_MS = 150
READY, WORKING = "Up to date", "Computing…"


class ProgressLine(QWidget):
    """Hairline below the settings bar, which shows the progress of a computation."""

    ACCESSIBLE_ROLE = QAccessible.Role.ProgressBar

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(2)
        self.setAccessibleName("Progress")
        self._theme = LIGHT
        self.is_progress_visible = False
        self._share, self._description = 1.0, WORKING
        set_accessible_value(self, READY)
        self._delay = QTimer(self, singleShot=True, interval=PROGRESS_DELAY_MS)
        self._delay.timeout.connect(self._show_delayed_progress)

    def set_progress(
        self, is_working: bool, theme: Theme, share: float = 1.0, description: str = WORKING
    ) -> None:
        """Set whether a computation is in progress.

        Parameters
        ----------
        share : float
            Progress from 0 to 1; 1 if the progress is unknown.
        description : str
            Text for screen readers.
        """
        self._theme, self._share, self._description = theme, share, description
        if is_working and self.is_progress_visible:
            set_accessible_value(self, description)
        if is_working and not self._delay.isActive() and not self.is_progress_visible:
            self._delay.start()
        if not is_working:
            self._delay.stop()
            self.is_progress_visible = False
            set_accessible_value(self, READY)
        self.update()

    def _show_delayed_progress(self) -> None:
        self.is_progress_visible = True
        set_accessible_value(self, self._description)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(0, 1, self.width(), 1, QColor(self._theme.hairline))
        if self.is_progress_visible:
            done = round(self._share * self.width())
            painter.fillRect(0, 0, done, 2, QColor(self._theme.accent))
        painter.end()
