"""Opens files and texts dropped onto a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent

if TYPE_CHECKING:
    from PySide6.QtCore import QMimeData
    from PySide6.QtWidgets import QWidget


class DropHandler(QObject):
    """Handles drops anywhere on a window; what is dropped is copied and never moved."""

    fileDropped = Signal(object)
    textDropped = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDropEvent) and self._accepts_drop(event):  # or one of dragging
            # The proposed action may be to move: then a file manager deletes the file.
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            if event.type() == QEvent.Type.Drop:
                self._handle_drop(event.mimeData())
            return True
        return False

    @staticmethod
    def _accepts_drop(event: QDropEvent) -> bool:
        data = event.mimeData()
        if not event.possibleActions() & Qt.DropAction.CopyAction:
            return False
        return bool(_local_paths(data)) or (data.hasText() and not data.hasUrls())

    def _handle_drop(self, data: QMimeData) -> None:
        paths = _local_paths(data)
        for path in paths:
            self.fileDropped.emit(path)
        if not paths:
            self.textDropped.emit(data.text())


def _local_paths(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
