"""Start button for long work; while it runs, a progress bar and a Stop button."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip


class LongWorkWidget(QWidget):
    """A row with a start button or progress; hidden if there is no work.

    Parameters
    ----------
    start, tip : str
        Text and tooltip of the start button.
    progress : str
        Accessible name of the progress bar.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    toggled = Signal()
    """The Start or Stop button was clicked."""

    def __init__(self, start: str, tip: str, progress: str) -> None:
        super().__init__()
        self.setAccessibleName(start)
        self.start, self.stop, self.progress = (
            QPushButton(start),
            QPushButton("Stop"),
            QProgressBar(),
        )
        self.start.setToolTip(plain_tooltip(tip))
        self.stop.setToolTip(plain_tooltip("Stop and discard the partial results"))
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
        """Show whether there is work, whether it is running, and its progress in per cent."""
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
