"""A button that starts long work, and while that runs its progress and a button that stops it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip


class LongWorkWidget(QWidget):
    """A row that is hidden while there is no such work.

    Parameters
    ----------
    start, tip : str
        The words of the button that starts it, and of its tool tip.
    progress : str
        What the progress bar counts, for screen readers.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    toggled = Signal()
    """It is to start, or to stop."""

    def __init__(self, start: str, tip: str, progress: str) -> None:
        super().__init__()
        self.setAccessibleName(start)
        self.start, self.stop, self.progress = (
            QPushButton(start),
            QPushButton("Stop"),
            QProgressBar(),
        )
        self.start.setToolTip(plain_tooltip(tip))
        self.stop.setToolTip(plain_tooltip("Stop; what was done of it is given up"))
        self.progress.setAccessibleName(progress)
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(round(6 * text_scale()))
        self.progress.setRange(0, 100)
        row = row_layout(self, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.start)
        row.addWidget(self.progress, 1)
        row.addWidget(self.stop)
        self._stretch = QWidget()
        row.addWidget(self._stretch, 1)
        for button in (self.start, self.stop):
            button.clicked.connect(self.toggled)
        self.show_work(False, False, 0)

    def show_work(self, is_there: bool, is_running: bool, share: int) -> None:
        """Show whether there is such work, whether it runs, and its share in per cent."""
        had_focus = self.start.hasFocus() or self.stop.hasFocus()
        self.setVisible(is_there)
        self.progress.setValue(share)
        for part, is_seen in (
            (self.start, not is_running),
            (self._stretch, not is_running),
            (self.progress, is_running),
            (self.stop, is_running),
        ):
            part.setVisible(is_seen)
        if had_focus and is_there:
            (self.stop if is_running else self.start).setFocus()
