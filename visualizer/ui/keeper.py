"""What is not saved is kept against a crash, and what a crash left behind is found."""

from __future__ import annotations

import traceback
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.attention.spec import InputError
from visualizer.state.saved import recovery
from visualizer.ui.folders import own_folder
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.state.document import Document
    from visualizer.state.saved.recovery import Left
    from visualizer.state.view import View

DELAY_MS = 1000
"""How long after a change it is kept, together with those that come in the meantime."""
RESTS = 20
"""How many times as long as the last one took no other one is written: some are of gigabytes."""


class Keeper(QObject):
    """Keeps the unsaved document of a window, off the GUI thread."""

    found = Signal(object)
    """What crashed programs left behind, newest first."""
    refused = Signal(str)
    broke = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = own_folder() / "recovery"
        self._file: recovery.Keeper | None = None
        self._latest: tuple[Document, View, Path | None] | None = None
        self._kept: Document | None = None
        self._inherited: list[Left] = []
        self._timer = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._timer.timeout.connect(self._keep)
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    # ------------------------------------------------------------------ against a crash

    def see(self, document: Document, view: View, path: Path | None, is_saved: bool) -> None:
        """Keep a document soon, unless it is saved; then nothing need be kept."""
        self._latest = None if is_saved else (document, view, path)
        if is_saved:
            self._timer.stop()
            if self._kept is not None:
                self._kept = None
                self._worker.ask(self._forget)
        elif document is not self._kept and not self._timer.isActive():
            self._timer.start()

    def _keep(self) -> None:
        if self._latest:
            self._kept = self._latest[0]
            self._worker.ask(partial(self._written, *self._latest))

    def _written(self, document: Document, view: View, path: Path | None) -> int:
        began = perf_counter()
        if self._file is None:
            self._file = recovery.Keeper(self._folder)
        self._file.keep(document, view, path)
        self._forget_inherited()
        return round(1000 * (perf_counter() - began))

    def _forget(self) -> None:
        if self._file:
            self._file.forget()
        self._forget_inherited()

    def inherit(self, left: Left) -> None:
        """Answer for what a crash left behind: it stays until it is kept anew, or need not be."""
        self._inherited.append(left)

    def _forget_inherited(self) -> None:
        while self._inherited:
            self._inherited.pop().forget()

    def look_back(self) -> None:
        """Look for what crashed programs left behind."""
        self._worker.ask(partial(recovery.left_behind, self._folder))

    def _take(self, answer: list[Left] | int | None) -> None:
        if isinstance(answer, int):
            self._timer.setInterval(max(DELAY_MS, RESTS * answer))
        elif answer:
            self.found.emit(answer)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))

    def close(self) -> None:
        """End as one should: nothing is left behind."""
        self._timer.stop()
        self._worker.stop()
        self._forget_inherited()
        if self._file:
            self._file.close()
            self._file = None
