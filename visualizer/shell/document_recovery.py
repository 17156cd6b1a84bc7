"""Autosaves unsaved documents, and asks at startup whether to recover them after a crash."""

from __future__ import annotations

from functools import partial
from textwrap import shorten
from time import perf_counter
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.documents.document_file import UNTITLED_NAME, SavedDocument
from visualizer.errors import InputError
from visualizer.format import format_date_and_time
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.app_settings import RECOVERY, is_autosave_enabled, user_data_folder
from visualizer.widgets.dialogs import ask_to_recover_documents, show_warning

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QWidget

    from visualizer.documents.recovery_file import CrashRecoveryFile, RecoveryFile
    from visualizer.session.document import Document
    from visualizer.session.view import View
    from visualizer.storage.regular_file import FileVersion

AUTOSAVE_DELAY_MS = 1000
"""Delay before an autosave, in milliseconds, so that one autosave covers several changes."""
PAUSE_FACTOR = 20
"""Minimum delay of the next autosave, as a multiple of the duration of the last one."""

RETRY_DELAY_MS = 5000
"""Delay, in milliseconds, before a failed autosave is retried; the disk may have been full."""
MAX_LISTED_DOCUMENTS = 8
MAX_EXCERPT_LENGTH = 40
MAX_EXCERPT_FILE_BYTES = 2**20


class AutosaveController(QObject):
    """Controller that autosaves the unsaved document of a window on a worker thread."""

    found = Signal(object)
    """Emitted with the recovery files that crashed instances of the program left, newest first."""
    refused = Signal(str)
    failed = Signal(str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._recovery = _RecoveryFileWriter(user_data_folder() / RECOVERY)
        self._latest: tuple[Document, View, Path | None, FileVersion | None] | None = None
        self._kept: tuple[Document, Path | None, FileVersion | None] | None = None
        self._is_refused = False
        """Whether the last autosave failed; this is reported only once."""
        self._timer = QTimer(self, singleShot=True, interval=AUTOSAVE_DELAY_MS)
        self._timer.timeout.connect(self._autosave)
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_result)
        self._worker.failed.connect(self._report_failure)

    @property
    def autosave_delay_ms(self) -> int:
        """Delay between a change and its autosave, in milliseconds."""
        return self._timer.interval()

    # ------------------------------------------------------------------ autosaving

    def schedule_autosave(
        self,
        document: Document,
        view: View,
        path: Path | None,
        version: FileVersion | None,
        is_saved: bool,
    ) -> None:
        """Schedule an autosave of a document, or remove the recovery file if it is not needed.

        The path and the version refer to the file that the document was opened from or saved to.
        """
        is_saved = is_saved or not is_autosave_enabled()
        self._latest = None if is_saved else (document, view, path, version)
        if is_saved:
            self._timer.stop()
            if self._kept is not None:
                self._kept = None
                self._worker.submit(self._recovery.forget)
        elif not self._is_autosaved(document, path, version) and not self._timer.isActive():
            self._timer.start()

    def _is_autosaved(
        self, document: Document, path: Path | None, version: FileVersion | None
    ) -> bool:
        kept = self._kept
        return kept is not None and kept[0] is document and kept[1:] == (path, version)

    def _autosave(self) -> None:
        if self._latest:
            document, _, path, version = self._latest
            self._kept = document, path, version
            self._worker.submit(partial(self._recovery.keep, *self._latest))

    def adopt_recovery_file(self, left: CrashRecoveryFile) -> None:
        """Keep the file of a recovered document until the document is autosaved or saved."""
        self._recovery.inherited.append(left)

    def find_crash_recoveries(self) -> None:
        """Search for recovery files left by crashed instances of the program."""
        self._worker.submit(self._recovery.find_abandoned_files)

    def _handle_result(self, answer: list[CrashRecoveryFile] | int | None) -> None:
        if isinstance(answer, int):
            self._is_refused = False
            self._timer.setInterval(max(AUTOSAVE_DELAY_MS, PAUSE_FACTOR * answer))
        elif answer:
            self.found.emit(answer)

    def _report_failure(self, error: Exception) -> None:
        if isinstance(error, InputError):
            if self._latest:
                self._kept = None
                self._timer.setInterval(RETRY_DELAY_MS)
                self._timer.start()
            if not self._is_refused:
                self._is_refused = True
                self.refused.emit(error.sentence)
        else:
            self.failed.emit(log_unexpected_error(error))

    def close(self) -> None:
        """Stop autosaving and remove the recovery file."""
        self._timer.stop()
        self._worker.abandon(self._recovery.close)


class _RecoveryFileWriter:
    """Owner of a window's recovery file; the worker's reference to it may outlive the window."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: RecoveryFile | None = None
        self.inherited: list[CrashRecoveryFile] = []

    def keep(
        self, document: Document, view: View, path: Path | None, version: FileVersion | None
    ) -> int:
        """Write the file and return the time that this took, in milliseconds."""
        from visualizer.documents.recovery_file import RecoveryFile  # after the window appears

        began = perf_counter()
        if self._file is None:
            self._file = RecoveryFile(self._folder)
        self._file.write(document, view, path, version)
        self._delete_inherited_files()
        return round(1000 * (perf_counter() - began))

    def forget(self) -> None:
        if self._file:
            self._file.delete()
        self._delete_inherited_files()

    def find_abandoned_files(self) -> list[CrashRecoveryFile]:
        from visualizer.documents.recovery_file import find_crash_recovery_files

        return find_crash_recovery_files(self._folder)

    def _delete_inherited_files(self) -> None:
        while self.inherited:
            self.inherited.pop().delete()

    def close(self) -> None:
        self._delete_inherited_files()
        if self._file:
            self._file.close()


class RecoveryPrompt(QObject):
    """Prompt that asks whether to recover documents, and reads them on a worker thread."""

    recovered = Signal(object, object)
    """Emitted with a recovered document and its recovery file."""
    messageReported = Signal(str)
    failed = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._left: list[CrashRecoveryFile] = []
        """The documents that have not been read yet."""
        self._is_opening = False
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_result)
        self._worker.failed.connect(self._report_failure)

    def ask_to_recover(self, left: list[CrashRecoveryFile]) -> None:
        """Ask whether to recover or discard the documents."""
        self._left = left.copy()
        self._worker.submit(partial(_describe_documents, left[:MAX_LISTED_DOCUMENTS]))

    def close(self) -> None:
        """Stop reading; at the next start, the prompt lists the unread documents again."""
        self._worker.abandon()

    def _handle_result(self, answer: str | SavedDocument) -> None:
        if isinstance(answer, SavedDocument):
            self.recovered.emit(answer, self._left.pop(0))
            self._recover_next()
        else:
            ask_to_recover_documents(self._window, answer, self._recover_next, self._discard_all)

    def _recover_next(self) -> None:
        self._is_opening = bool(self._left)
        self.messageReported.emit("Opening…" if self._left else "")
        if self._left:
            self._worker.submit(self._left[0].read)

    def _report_failure(self, error: Exception) -> None:
        if isinstance(error, InputError):
            show_warning(self._window, "Cannot recover", error.sentence)
        else:
            self.failed.emit(log_unexpected_error(error))
        if self._is_opening:  # this document is offered again at the next start
            del self._left[0]
            self._recover_next()

    def _discard_all(self) -> None:
        for each in self._left:
            each.delete()


def _describe_documents(left: list[CrashRecoveryFile]) -> str:
    return "\n".join(map(_describe_document, left))


def _describe_document(left: CrashRecoveryFile) -> str:
    name = left.path.stem if left.path else UNTITLED_NAME
    label = f"“{name}”, {format_date_and_time(left.when.astimezone())}"
    begins = _excerpt(left)
    return f"{label}: {begins}" if begins else label


def _excerpt(left: CrashRecoveryFile) -> str:
    """Return the first words of a recovered document, or "" if reading it would take long."""
    try:
        if left.file.stat().st_size > MAX_EXCERPT_FILE_BYTES:
            return ""
        return shorten(left.read().document.text, MAX_EXCERPT_LENGTH, placeholder="…")
    except (OSError, InputError):
        return ""
