"""Shows export progress and keeps the window open until the file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QTimer

from visualizer.export.export_progress_widget import ExportProgressWidget

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import SignalInstance

CLOSES_THEN = "The window closes when the file is complete"


class Exporter(Protocol):
    """Interface of a writer of one file at a time, with the signals of `ExportRunner`."""

    said: SignalInstance
    progressed: SignalInstance
    refused: SignalInstance
    broke: SignalInstance
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
        self._then: Callable[[], object] | None = None
        self.widget.cancel.clicked.connect(exporter.cancel)
        exporter.progressed.connect(self.widget.show_progress)
        exporter.changed.connect(self._show_progress_or_close)
        exporter.refused.connect(self._keep_open)
        exporter.broke.connect(self._keep_open)

    @property
    def is_closing(self) -> bool:
        """Whether the window closes once the file is written."""
        return self._then is not None

    def may_close(self, then: Callable[[], object]) -> bool:
        """Return whether nothing is being written; otherwise call `then` once it is finished.

        It does not wait, because waiting for a long film would block other windows.
        """
        if not self._exporter.is_working:
            return True
        self._then = then
        self._exporter.said.emit(f"{CLOSES_THEN}.", 0)
        return False

    def _show_progress_or_close(self) -> None:
        self.widget.show_working(self._exporter.is_working)
        if not self._exporter.is_working:
            QTimer.singleShot(0, self, self._call_continuation)

    def _call_continuation(self) -> None:
        then, self._then = self._then, None
        if then:
            then()

    def _keep_open(self) -> None:
        """Keep the window open to show why nothing was written."""
        self._then = None
