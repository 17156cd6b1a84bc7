"""Asks at startup whether to recover unsaved documents."""

from __future__ import annotations

import traceback
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.documents.document_file import UNTITLED_NAME, SavedDocument
from visualizer.errors import InputError
from visualizer.format import format_date_and_time
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.widgets.dialogs import ask_recover, show_warning

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.documents.recovery_file import RecoveredDocument


MAX_LISTED_DOCUMENTS = 8
MAX_EXCERPT_LENGTH = 40
MAX_EXCERPT_FILE_BYTES = 2**20


class RecoveryPrompt(QObject):
    """Asks whether to recover documents, and reads them one by one on a worker thread."""

    recovered = Signal(object, object)
    """Emitted with a recovered document and its recovery file."""
    said = Signal(str)
    failed = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._left: list[RecoveredDocument] = []
        """The documents that have not been read yet."""
        self._is_opening = False
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_result)
        self._worker.failed.connect(self._report_failure)

    def offer(self, left: list[RecoveredDocument]) -> None:
        """Ask whether to recover or discard the documents."""
        self._left = left.copy()
        self._worker.ask(partial(_list_documents, left[:MAX_LISTED_DOCUMENTS]))

    def close(self) -> None:
        """Stop reading; at the next start, the prompt lists the unread documents again."""
        self._worker.leave()

    def _handle_result(self, answer: str | SavedDocument) -> None:
        if isinstance(answer, SavedDocument):
            self.recovered.emit(answer, self._left.pop(0))
            self._open_next()
        else:
            ask_recover(self._window, answer, self._open_next, self._discard_all)

    def _open_next(self) -> None:
        self._is_opening = bool(self._left)
        self.said.emit("Opening…" if self._left else "")
        if self._left:
            self._worker.ask(self._left[0].read)

    def _report_failure(self, error: Exception) -> None:
        if isinstance(error, InputError):
            show_warning(self._window, "Cannot recover", error.sentence)
        else:
            self.failed.emit("".join(traceback.format_exception(error)))
        if self._is_opening:  # this document is offered again at the next start
            del self._left[0]
            self._open_next()

    def _discard_all(self) -> None:
        for each in self._left:
            each.delete()


def _list_documents(left: list[RecoveredDocument]) -> str:
    return "\n".join(map(_describe_document, left))


def _describe_document(left: RecoveredDocument) -> str:
    name = left.path.stem if left.path else UNTITLED_NAME
    label = f"“{name}”, {format_date_and_time(left.when.astimezone())}"
    begins = _excerpt(left)
    return f"{label}: {begins}" if begins else label


def _excerpt(left: RecoveredDocument) -> str:
    """Return the first words of a recovered document; "" if reading it would take long."""
    try:
        if left.file.stat().st_size > MAX_EXCERPT_FILE_BYTES:
            return ""
        return shorten(left.read().document.text, MAX_EXCERPT_LENGTH, placeholder="…")
    except (OSError, InputError):
        return ""
