"""The Qt application, which receives the documents that macOS asks it to open."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class Application(QApplication):
    """Application that emits a signal for each document to open.

    On other systems, the desktop passes documents on the command line.
    """

    fileRequested = Signal(Path)

    def event(self, event: QEvent) -> bool:
        """Handle a request to open a file; requests for other URLs are ignored."""
        if isinstance(event, QFileOpenEvent) and event.file():
            self.fileRequested.emit(Path(event.file()))
            return True
        return super().event(event)
