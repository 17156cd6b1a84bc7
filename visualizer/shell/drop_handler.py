"""Opens files and texts dropped onto a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent

if TYPE_CHECKING:
    from PySide6.QtCore import QMimeData
    from PySide6.QtWidgets import QWidget


class DropHandler(QObject):
    """Handles drops anywhere on a window."""

    fileDropped = Signal(object)
    textDropped = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDragEnterEvent | QDropEvent) and self._takes(event.mimeData()):
            event.acceptProposedAction()
            if event.type() == QEvent.Type.Drop:
                self._take(event.mimeData())
            return True
        return False

    @staticmethod
    def _takes(data: QMimeData) -> bool:
        return bool(_paths(data)) or (data.hasText() and not data.hasUrls())

    def _take(self, data: QMimeData) -> None:
        paths = _paths(data)
        for path in paths:
            self.fileDropped.emit(path)
        if not paths:
            self.textDropped.emit(data.text())


def _paths(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
