"""What can be taken out of the program: files in some formats, and scripts."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Signal
from PySide6.QtGui import QGuiApplication

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.state.code.script import script
from visualizer.state.formats import format_of, taken, why_not
from visualizer.state.progress import CancelledError, Progress, quietly
from visualizer.state.saved.document_file import write_document
from visualizer.state.words import counted
from visualizer.ui.figures.films import write_film
from visualizer.ui.figures.png import write_png
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.state.code.dialects import Dialect
    from visualizer.state.figure import FigureLook, Shot

SAID_MS = 5000


def _npz(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    files.npz(shot.run, file)


def _document(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    write_document(file, shot.document, shot.view)


WRITERS: dict[str, Callable[[Shot, FigureLook, BinaryIO, Progress], object]] = {
    ".png": write_png,
    **{suffix: partial(write_film, suffix) for suffix in (".gif", ".apng", ".webp", ".mp4")},
    ".npz": _npz,
    ".attention": _document,
}
"""What writes each of the formats."""


def export(path: Path, shot: Shot, look: FigureLook, progress: Progress = quietly) -> Path:
    """Write what is shown in the format that the file's name asks for.

    Parameters
    ----------
    progress : callable
        Told how far it is; what it raises calls the writing off, and what was there stays.

    Raises
    ------
    InputError
        When the format is unknown or lacks what writes it, the file cannot be written or memory
        runs out.
    """
    known = format_of(path.name)
    if known is None:
        raise InputError("export", f"“{path.suffix}” is no format to export. Use {taken()}.")
    if lacking := why_not(known.suffix):
        raise InputError("export", f"{lacking}.")
    write = WRITERS[known.suffix]
    files.write(path, lambda file: write(shot, look, file, progress))
    return path


class Exporter(QObject):
    """Writes files and scripts off the GUI thread, one at a time, and says how it went."""

    said = Signal(str, int)
    """How far it is, for the status bar, and for how long to show it in ms; 0 is until the next."""
    progressed = Signal(int, int)
    """How much is done, of how much."""
    refused = Signal(str)
    broke = Signal(str)
    changed = Signal()
    """Whether it is working is not as it was."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_working = False
        self._called_off = threading.Event()
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    def ask(self, path: Path, shot: Shot, look: FigureLook) -> None:
        """Have a file written, unless something is being written."""
        self._ask(partial(export, path, shot, look, self._tell), "Exporting…")

    def ask_for_script(self, run: Run, dialect: Dialect) -> None:
        """Have a script put on the clipboard, unless something is being written."""
        self._ask(partial(script, run, dialect), "Writing the script…")

    def cancel(self) -> None:
        """Call off what is being written, as soon as it says how far it is."""
        self._called_off.set()

    def _tell(self, done: int, of: int) -> None:
        if self._called_off.is_set():
            raise CancelledError
        self.progressed.emit(done, of)

    def _ask(self, request: Callable[[], object], said: str) -> None:
        if self.is_working:
            return
        self.is_working = True
        self._called_off.clear()
        self._worker.ask(request)
        self.said.emit(said, 0)
        self.changed.emit()

    def close(self) -> None:
        """Have what was asked for written to its end, say how it went, and end the thread."""
        while self._worker.is_working:  # what has not begun would not be written
            self._worker.wait(10)
        self._worker.stop()
        QCoreApplication.sendPostedEvents(self, QEvent.Type.MetaCall.value)

    def _take(self, written: Path | str) -> None:
        if isinstance(written, Path):
            self._end(f"Exported to {written}")
        else:
            QGuiApplication.clipboard().setText(written)
            self._end(f"Copied a script of {counted(len(written.splitlines()), 'line')}")

    def _fail(self, error: Exception) -> None:
        if isinstance(error, CancelledError):
            self._end("Called off; nothing was written.")
            return
        self._end("")
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))

    def _end(self, said: str) -> None:
        self.is_working = False
        self.said.emit(said, SAID_MS)
        self.changed.emit()
