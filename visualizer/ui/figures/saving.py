"""How far an export is, at the foot of the window, and a way to call it off."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QSizePolicy, QToolButton, QWidget

from visualizer.ui.labels import PlainLabel
from visualizer.ui.progress import DELAY_MS

LINE = (120, 4)


class Saving(QWidget):
    """A thin line and a button, seen while something is written that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.cancel = QProgressBar(), QToolButton()
        self.line.setFixedSize(*LINE)
        self.line.setTextVisible(False)
        self.line.setAccessibleName("Export")
        self.cancel.setText("Cancel")
        self.cancel.setAccessibleName("Cancel the export")
        self.cancel.setAutoRaise(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.line)
        row.addWidget(self.cancel)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.setMaximumHeight(PlainLabel("Cancel").sizeHint().height())  # no higher than what stays
        self._delay = QTimer(self, interval=DELAY_MS, singleShot=True)
        self._delay.timeout.connect(self.show)
        self.hide()

    def show_working(self, is_working: bool) -> None:
        """Show that something is being written, or no longer."""
        if is_working:
            self.line.setRange(0, 0)
            self._delay.start()
        else:
            self._delay.stop()
            self.hide()

    def show_progress(self, done: int, of: int) -> None:
        """Show how much of it is done."""
        self.line.setRange(0, of)
        self.line.setValue(done)
