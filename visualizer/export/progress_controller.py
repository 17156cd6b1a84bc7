"""Shows export progress and keeps the window open until the file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolButton, QWidget

from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.status_bar import PROGRESS_DELAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import SignalInstance

PROGRESS_BAR_SIZE_PX = (120, 4)


class ExportProgressWidget(QWidget):
    """A progress bar and a cancel button, shown during a long export."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.cancel = QProgressBar(), QToolButton()
        self.line.setFixedSize(*PROGRESS_BAR_SIZE_PX)
        self.line.setTextVisible(False)
        self.line.setAccessibleName("Export")
        self.cancel.setText("Cancel")
        self.cancel.setAccessibleName("Cancel the export")
        self.cancel.setAutoRaise(True)
        row = row_layout(self, (0, 0, 0, 0))
        row.addWidget(self.line)
        row.addWidget(self.cancel)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        # At most a line of text.
        self.setMaximumHeight(PlainTextLabel("Cancel").sizeHint().height())
        self._delay = QTimer(self, interval=PROGRESS_DELAY_MS, singleShot=True)
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
        """Show the completed and the total number of units of work."""
        self.line.setRange(0, of)
        self.line.setValue(done)


CLOSING_NOTICE = "The window closes when the file is complete"


class Exporter(Protocol):
    """Interface of exporters that write one file at a time, with signals as in `ExportRunner`."""

    messageReported: SignalInstance
    progressReported: SignalInstance
    refused: SignalInstance
    failed: SignalInstance
    changed: SignalInstance

    @property
    def is_working(self) -> bool:
        """Whether a file is being written."""

    def cancel(self) -> None:
        """Cancel the running export."""


class ExportProgressController(QObject):
    """Shows export progress and keeps the window open until the file is written."""

    def __init__(self, exporter: Exporter, parent: QObject) -> None:
        super().__init__(parent)
        self._exporter, self.widget = exporter, ExportProgressWidget()
        self._on_finished: Callable[[], object] | None = None
        self.widget.cancel.clicked.connect(exporter.cancel)
        exporter.progressReported.connect(self.widget.show_progress)
        exporter.changed.connect(self._show_progress_or_close)
        exporter.refused.connect(self._keep_open)
        exporter.failed.connect(self._keep_open)

    @property
    def is_closing(self) -> bool:
        """Whether the window will close as soon as the file is written."""
        return self._on_finished is not None

    def may_close(self, then: Callable[[], object]) -> bool:
        """Return whether no file is being written; if one is, call `then` when it is finished.

        The method returns immediately: waiting for a long animation would block the other windows.
        """
        if not self._exporter.is_working:
            return True
        self._on_finished = then
        self._exporter.messageReported.emit(f"{CLOSING_NOTICE}.", 0)
        return False

    def _show_progress_or_close(self) -> None:
        self.widget.show_working(self._exporter.is_working)
        if not self._exporter.is_working:
            QTimer.singleShot(0, self, self._call_continuation)

    def _call_continuation(self) -> None:
        then, self._on_finished = self._on_finished, None
        if then:
            then()

    def _keep_open(self) -> None:
        """Keep the window open so that it shows why nothing was written."""
        self._on_finished = None
