"""Autosaves the unsaved document, to be offered at the next start after a crash."""

from __future__ import annotations

import traceback
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.errors import InputError
from visualizer.session.newest_request_worker import Worker
from visualizer.widgets.app_settings import RECOVERY, is_autosaving, own_folder

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.documents.recovery_file import RecoveredDocument, RecoveryFile
    from visualizer.session.document import Document
    from visualizer.session.view import View
    from visualizer.storage.regular_file import FileVersion

DELAY_MS = 1000
"""Delay of an autosave, in which further changes are collected."""
RESTS = 20
"""Pause after an autosave as a multiple of its duration: some files are gigabytes large."""

AGAIN_MS = 5000
"""Pause after an autosave that was refused: a full disk, say, is so for a while."""


class AutosaveController(QObject):
    """Autosaves the unsaved document of a window, off the GUI thread."""

    found = Signal(object)
    """The recovery files that crashed programs left behind, newest first."""
    refused = Signal(str)
    broke = Signal(str)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._recovery = _Recovery(own_folder() / RECOVERY)
        self._latest: tuple[Document, View, Path | None, FileVersion | None] | None = None
        self._kept: tuple[Document, Path | None, FileVersion | None] | None = None
        self._is_refused = False
        """Whether the last autosave was, which is said once."""
        self._timer = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._timer.timeout.connect(self._keep)
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    @property
    def pause_ms(self) -> int:
        """After so long a change is autosaved."""
        return self._timer.interval()

    # ------------------------------------------------------------------ against a crash

    def see(
        self,
        document: Document,
        view: View,
        path: Path | None,
        version: FileVersion | None,
        is_saved: bool,
    ) -> None:
        """Schedule an autosave of a document; remove the recovery file if none is wanted.

        The path and the version are those of the file that it was opened from or saved to.
        """
        is_saved = is_saved or not is_autosaving()
        self._latest = None if is_saved else (document, view, path, version)
        if is_saved:
            self._timer.stop()
            if self._kept is not None:
                self._kept = None
                self._worker.ask(self._recovery.forget)
        elif not self._is_kept(document, path, version) and not self._timer.isActive():
            self._timer.start()

    def _is_kept(self, document: Document, path: Path | None, version: FileVersion | None) -> bool:
        kept = self._kept
        return kept is not None and kept[0] is document and kept[1:] == (path, version)

    def _keep(self) -> None:
        if self._latest:
            document, _, path, version = self._latest
            self._kept = document, path, version
            self._worker.ask(partial(self._recovery.keep, *self._latest))

    def inherit(self, left: RecoveredDocument) -> None:
        """Take responsibility for a recovered document until it is autosaved anew or saved."""
        self._recovery.inherited.append(left)

    def look_back(self) -> None:
        """Search for recovery files of crashed programs."""
        self._worker.ask(self._recovery.left_behind)

    def _take(self, answer: list[RecoveredDocument] | int | None) -> None:
        if isinstance(answer, int):
            self._is_refused = False
            self._timer.setInterval(max(DELAY_MS, RESTS * answer))
        elif answer:
            self.found.emit(answer)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InputError):
            if self._latest:
                self._kept = None
                self._timer.setInterval(AGAIN_MS)
                self._timer.start()
            if not self._is_refused:
                self._is_refused = True
                self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))

    def close(self) -> None:
        """End normally: no recovery file is left behind."""
        self._timer.stop()
        self._worker.leave(self._recovery.close)


class _Recovery:
    """The recovery file of a window, for the worker; it may outlive the window."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: RecoveryFile | None = None
        self.inherited: list[RecoveredDocument] = []

    def keep(
        self, document: Document, view: View, path: Path | None, version: FileVersion | None
    ) -> int:
        """Write the file; return how long that took in milliseconds."""
        from visualizer.documents.recovery_file import RecoveryFile  # not before the first window

        began = perf_counter()
        if self._file is None:
            self._file = RecoveryFile(self._folder)
        self._file.keep(document, view, path, version)
        self._forget_inherited()
        return round(1000 * (perf_counter() - began))

    def forget(self) -> None:
        if self._file:
            self._file.forget()
        self._forget_inherited()

    def left_behind(self) -> list[RecoveredDocument]:
        from visualizer.documents.recovery_file import recovery_files_of_crashes

        return recovery_files_of_crashes(self._folder)

    def _forget_inherited(self) -> None:
        while self.inherited:
            self.inherited.pop().forget()

    def close(self) -> None:
        self._forget_inherited()
        if self._file:
            self._file.close()
