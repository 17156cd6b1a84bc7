"""What can be taken out of the program: files in some formats, and scripts."""

from __future__ import annotations

import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Signal
from PySide6.QtGui import QGuiApplication

from visualizer.attention.spec import InputError
from visualizer.state.progress import CancelledError
from visualizer.state.words import counted
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.state.code.dialects import Dialect
    from visualizer.state.figure import FigureLook, Shot
    from visualizer.state.progress import Progress
    from visualizer.ui.figures.copying import Copied

SAID_MS = 5000
SHOWN_S = 0.05
"""How far it is is shown so often: the window has other things to do."""


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
        self._due = 0.0
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    def ask(self, path: Path, shot: Shot, look: FigureLook) -> None:
        """Have a file written, unless something is being written."""
        from visualizer.ui.writers import export  # not needed before, and large

        self.ask_to_write(partial(export, path, shot, look))

    def ask_to_write(self, write: Callable[[Progress], Path]) -> None:
        """Have something write a file, unless something is being written.

        Parameters
        ----------
        write : callable
            Takes whom to tell how far it is, and gives the file's path.
        """
        self._ask(partial(write, self._tell), "Exporting…")

    def ask_for_picture(self, shot: Shot, look: FigureLook) -> None:
        """Have a figure put on the clipboard, unless something is being written."""
        from visualizer.ui.figures.copying import copied

        self._ask(partial(copied, shot, look, self._tell), "Copying…")

    def ask_for_script(self, run: Run, dialect: Dialect) -> None:
        """Have a script put on the clipboard, unless something is being written."""
        from visualizer.state.code.script import script

        self._ask(partial(script, run, dialect), "Writing the script…")

    def cancel(self) -> None:
        """Call off what is being written, as soon as it says how far it is."""
        self._called_off.set()

    def _tell(self, done: int, of: int) -> None:
        if self._called_off.is_set():
            raise CancelledError
        now = time.monotonic()
        if now >= self._due:
            self._due = now + SHOWN_S
            self.progressed.emit(done, of)

    def _ask(self, request: Callable[[], object], said: str) -> None:
        if self.is_working:
            return
        self.is_working = True
        self._called_off.clear()
        self._due = 0.0
        self._worker.ask(request)
        self.said.emit(said, 0)
        self.changed.emit()

    def close(self) -> None:
        """Have what was asked for written to its end, say how it went, and end the thread."""
        while self._worker.is_working:  # what has not begun would not be written
            self._worker.wait(10)
        self._worker.stop()
        QCoreApplication.sendPostedEvents(self, QEvent.Type.MetaCall.value)

    def _take(self, written: Path | Copied | str) -> None:
        if isinstance(written, Path):
            self._end(f"Exported to {written}")
        elif isinstance(written, str):
            QGuiApplication.clipboard().setText(written)
            self._end(f"Copied a script of {counted(len(written.splitlines()), 'line')}")
        else:
            QGuiApplication.clipboard().setMimeData(written.mime())
            size = written.image.size()
            self._end(f"Copied a picture of {size.width():,} × {size.height():,} pixels")

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
