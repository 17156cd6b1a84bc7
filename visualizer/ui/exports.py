"""What can be taken out of the program: files in some formats, as a table, and scripts."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Signal
from PySide6.QtGui import QGuiApplication

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.state.caption import caption
from visualizer.state.code.script import script
from visualizer.state.words import counted
from visualizer.ui.pictures import picture, write_png
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.state.code.dialects import Dialect
    from visualizer.state.panels import Board

SAID_MS = 5000


def _png(run: Run, board: Board, file: BinaryIO) -> None:
    said = f" · {board.said}" if board.said else ""
    write_png(picture(board, caption(run) + said), file)


def _npz(run: Run, board: Board, file: BinaryIO) -> None:
    files.npz(run, file)


FORMATS: dict[str, tuple[str, Callable[[Run, Board, BinaryIO], None]]] = {
    ".png": ("Picture of the heatmaps", _png),
    ".npz": ("Numbers of every stage", _npz),
}
FILTERS = ";;".join(f"{words} (*{suffix})" for suffix, (words, _) in FORMATS.items())


def named(name: str, chosen: str) -> Path:
    """Give a file's path; a name without a suffix takes that of the chosen kind of file."""
    path = Path(name)
    suffix = next((suffix for suffix in FORMATS if f"*{suffix}" in chosen), ".png")
    return path if path.suffix else path.with_suffix(suffix)


def export(path: Path, run: Run, board: Board) -> Path:
    """Write a run in the format that the file's name asks for.

    Raises
    ------
    InputError
        When the format is unknown, the file cannot be written or memory runs out.
    """
    known = FORMATS.get(path.suffix.lower())
    if known is None:
        takes = " or ".join(FORMATS)
        raise InputError("export", f"“{path.suffix}” is no format to export. Use {takes}.")
    files.write(path, partial(known[1], run, board))
    return path


class Exporter(QObject):
    """Writes files and scripts off the GUI thread, one at a time, and says how it went."""

    said = Signal(str, int)
    """How far it is, for the status bar, and for how long to show it in ms; 0 is until the next."""
    refused = Signal(str)
    broke = Signal(str)
    changed = Signal()
    """Whether it is working is not as it was."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_working = False
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    def ask(self, path: Path, run: Run, board: Board) -> None:
        """Have a file written, unless something is being written."""
        self._ask(partial(export, path, run, board), "Exporting…")

    def ask_for_script(self, run: Run, dialect: Dialect) -> None:
        """Have a script put on the clipboard, unless something is being written."""
        self._ask(partial(script, run, dialect), "Writing the script…")

    def _ask(self, request: Callable[[], object], said: str) -> None:
        if self.is_working:
            return
        self.is_working = True
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
        self._end("")
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))

    def _end(self, said: str) -> None:
        self.is_working = False
        self.said.emit(said, SAID_MS)
        self.changed.emit()
