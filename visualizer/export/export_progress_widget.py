"""Export progress in the status bar, with a cancel button."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolButton, QWidget

from visualizer.widgets.busy_line import DELAY_MS
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import row_layout

LINE = (120, 4)


class ExportProgressWidget(QWidget):
    """A progress bar and a cancel button, shown during a long export."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.cancel = QProgressBar(), QToolButton()
        self.line.setFixedSize(*LINE)
        self.line.setTextVisible(False)
        self.line.setAccessibleName("Export")
        self.cancel.setText("Cancel")
        self.cancel.setAccessibleName("Cancel the export")
        self.cancel.setAutoRaise(True)
        row = row_layout(self, (0, 0, 0, 0))
        row.addWidget(self.line)
        row.addWidget(self.cancel)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.setMaximumHeight(PlainLabel("Cancel").sizeHint().height())  # as high as a line of text
        self._delay = QTimer(self, interval=DELAY_MS, singleShot=True)
        self._delay.timeout.connect(self.show)
        self.hide()

    def show_working(self, is_working: bool) -> None:
        if is_working:
            self.line.setRange(0, 0)
            self._delay.start()
        else:
            self._delay.stop()
            self.hide()

    def show_progress(self, done: int, of: int) -> None:
        """Show the units done and their total."""
        self.line.setRange(0, of)
        self.line.setValue(done)
