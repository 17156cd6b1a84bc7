"""The question at start whether documents that were not saved are opened again."""

from __future__ import annotations

import traceback
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.date_format import format_date_and_time
from visualizer.documents.document_file import UNTITLED, SavedDocument
from visualizer.errors import InputError
from visualizer.session.newest_request_worker import Worker
from visualizer.widgets.dialogs import ask_recover, refuse

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.documents.recovery_file import RecoveredDocument


MAX_LISTED_DOCUMENTS = 8
MAX_EXCERPT_LENGTH = 40
QUICKLY_READ = 2**20


class RecoveryPrompt(QObject):
    """Offers the recovered documents, which are read off the GUI thread, one after the other."""

    recovered = Signal(object, object)
    """The document read, and its recovery file."""
    said = Signal(str)
    broke = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._left: list[RecoveredDocument] = []
        """Those offered that are not read yet."""
        self._is_opening = False
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    def offer(self, left: list[RecoveredDocument]) -> None:
        """Ask whether to recover or drop the documents."""
        self._left = left.copy()
        self._worker.ask(partial(_names, left[:MAX_LISTED_DOCUMENTS]))

    def close(self) -> None:
        """Read no more; what was not read is offered again at the next start."""
        self._worker.leave()

    def _take(self, answer: str | SavedDocument) -> None:
        if isinstance(answer, SavedDocument):
            self.recovered.emit(answer, self._left.pop(0))
            self._open_next()
        else:
            ask_recover(self._window, answer, self._open_next, self._forget)

    def _open_next(self) -> None:
        self._is_opening = bool(self._left)
        self.said.emit("Opening…" if self._left else "")
        if self._left:
            self._worker.ask(self._left[0].saved)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InputError):
            refuse(self._window, "Cannot recover", error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))
        if self._is_opening:  # the others; this one is offered again at the next start
            del self._left[0]
            self._open_next()

    def _forget(self) -> None:
        for each in self._left:
            each.forget()


def _names(left: list[RecoveredDocument]) -> str:
    return "\n".join(map(_named, left))


def _named(left: RecoveredDocument) -> str:
    name = left.path.stem if left.path else UNTITLED
    said = f"“{name}”, {format_date_and_time(left.when.astimezone())}"
    begins = _beginning(left)
    return f"{said}: {begins}" if begins else said


def _beginning(left: RecoveredDocument) -> str:
    """Return the first words of a recovered document, unless reading it would take long."""
    try:
        if left.file.stat().st_size > QUICKLY_READ:
            return ""
        return shorten(left.saved().document.text, MAX_EXCERPT_LENGTH, placeholder="…")
    except (OSError, InputError):
        return ""
