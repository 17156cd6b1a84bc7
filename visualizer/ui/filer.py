"""Documents as files: opened, saved, kept against a crash, and asked about before they are lost."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.state.saved.change import Change
from visualizer.state.saved.document_file import SUFFIX, write_document
from visualizer.ui.ask_file import ask_to_open, ask_to_save
from visualizer.ui.keeper import Keeper
from visualizer.ui.messages import ask_unsaved, refuse
from visualizer.ui.sentence import LONGEST_TEXT
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.state.document import Document
    from visualizer.state.figure import Shot
    from visualizer.state.saved.document_file import Saved
    from visualizer.state.view import View
    from visualizer.ui.program import Program
    from visualizer.ui.window import Window

OPENED = (
    f"Documents (*{SUFFIX});;Pictures with a document inside (*.png *.svg *.pdf);;"
    "Attention and weights of other programs (*.npy *.npz *.safetensors *.pt *.pth *.bin);;"
    "Texts (*.txt);;All files (*)"
)
UNTITLED = "Untitled"
SAID_MS, NOTICE_MS = 5000, 20_000


class Filer(QObject):
    """Opens and saves the document of a window; every method is something a user wants."""

    changed = Signal()
    """The file, or whether it is saved, is not as it was."""
    anotherWanted = Signal(object, object)
    """A window of its own is wanted for what was read (or nothing), and its path."""
    settled = Signal(object)
    """The path of a file that was opened or saved."""

    def __init__(self, program: Program, window: Window) -> None:
        super().__init__(window)
        self._program, self._window, self._workspace = program, window, window.workspace
        self.path: Path | None = None
        self.keeps_numbers = False
        self._clean: Document | None = self._workspace.document
        self._then: Callable[[], object] | None = None
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)
        self.keeper = Keeper(self)
        self.keeper.refused.connect(self._say)
        self._workspace.changed.connect(self._see)
        self._was_saved = True

    # ------------------------------------------------------------------ what there is

    @property
    def name(self) -> str:
        """What the document is called."""
        return self.path.stem if self.path else UNTITLED

    @property
    def is_saved(self) -> bool:
        """Whether there is nothing that would be lost."""
        return self._workspace.document == self._clean

    @property
    def is_untouched(self) -> bool:
        """Whether the window holds nothing of anybody's."""
        return self.path is None and self.is_saved

    @property
    def is_busy(self) -> bool:
        """Whether a file is being read or written."""
        return self._worker.is_working

    def _see(self) -> None:
        is_saved = self.is_saved
        self.keeper.see(self._workspace.document, self._workspace.wanted, self.path, is_saved)
        if is_saved != self._was_saved:
            self._was_saved = is_saved
            self.changed.emit()

    # ------------------------------------------------------------------ opening

    def new_window(self) -> None:
        """Have another window, with the book's words."""
        self.anotherWanted.emit(None, None)

    def choose_to_open(self) -> None:
        """Ask for a file and open it."""
        folder = self.path.parent if self.path else Path.home()
        ask_to_open(self._window, folder, OPENED, self._open_named)

    def _open_named(self, name: str) -> None:
        self.open(Path(name))

    def open(self, path: Path) -> None:
        """Open a file: here where there is nothing to lose, else in a window of its own."""
        if not self.is_busy:
            self._say("Opening…", 0)
            self._worker.ask(partial(self._read, path, self._workspace.document))

    def _read(self, path: Path, document: Document) -> _Read:
        return _Read(self._program.read(path, document), path)

    def take_in(self, saved: Saved, path: Path | None) -> None:
        """Show what was read; of a picture with a document inside, the path is not its own."""
        is_own = path is not None and path.suffix.lower() == SUFFIX
        self.path = path if is_own else None
        self.keeps_numbers = is_own and saved.recorded is not None
        self._clean = saved.document
        self._workspace.open(saved.document, partial(self._program.restore, saved))
        self.changed.emit()

    def recover(self, saved: Saved, path: Path | None) -> None:
        """Show what a crash left behind; it is not saved yet."""
        self.take_in(saved, path)
        self._clean = None
        self._see()

    def take_text(self, text: str) -> None:
        """Take a text that was dropped as the sentence."""
        if len(text) > LONGEST_TEXT:
            self._workspace.refuse_text(len(text))
        else:
            self._workspace.set_text(text)

    # ------------------------------------------------------------------ saving

    def save(self) -> None:
        """Write the document into its file; ask for one where it has none."""
        if self.path:
            self._write(self.path)
        else:
            self.save_as()

    def save_as(self) -> None:
        """Ask for a file and write the document into it."""
        start = self.path or Path.home() / f"{UNTITLED.lower()}{SUFFIX}"
        dialog = ask_to_save(
            self._window, "Save as", start, f"Document (*{SUFFIX})", self._write_named
        )
        dialog.rejected.connect(self._stay)

    def _write_named(self, name: str) -> None:
        is_named = name.lower().endswith(SUFFIX)
        self._write(Path(name if is_named else name + SUFFIX))

    def _stay(self) -> None:
        self._then = None

    def toggle_numbers(self) -> None:
        """Have the numbers written into the file too, or not."""
        self.keeps_numbers = not self.keeps_numbers
        self.changed.emit()

    def _write(self, path: Path) -> None:
        if self.is_busy:
            return
        self._say("Saving…", 0)
        shot = self._workspace.shot if self.keeps_numbers else None
        document, view = self._workspace.document, self._workspace.wanted
        self._worker.ask(partial(_written, path, document, view, shot))

    # ------------------------------------------------------------------ being done

    def may_close(self, then: Callable[[], object]) -> bool:
        """Say whether nothing would be lost; else ask, and do what comes `then` once it may be."""
        if self.is_saved:
            return True
        save, lose = partial(self._save_and, then), partial(self._lose, then)
        ask_unsaved(self._window, self.name, save, lose)
        return False

    def _save_and(self, then: Callable[[], object]) -> None:
        self._then = then
        self.save()

    def _lose(self, then: Callable[[], object]) -> None:
        self.give_up()
        then()

    def give_up(self) -> None:
        """Have nothing to lose: the document is as good as saved."""
        self._clean = self._workspace.document
        self._see()

    def quit(self) -> None:
        """Close every window."""
        QApplication.closeAllWindows()  # as long as none has something to lose

    def close(self) -> None:
        """Come to an end: what is being written is written, and nothing need be recovered."""
        while self._worker.is_working:
            self._worker.wait(10)
        self._worker.stop()
        self.keeper.close()

    # ------------------------------------------------------------------ how it went

    def _take(self, answer: _Read | _Written) -> None:
        self.settled.emit(answer.path)
        if isinstance(answer, _Written):
            self._take_written(answer)
        else:
            self._take_read(answer.what, answer.path)

    def _take_written(self, written: _Written) -> None:
        self.path, self._clean = written.path, written.document
        self._say(f"Saved {written.path}")
        self._see()
        self.changed.emit()
        then, self._then = self._then, None
        if then and self.is_saved:
            then()

    def _take_read(self, what: Saved | Change, path: Path) -> None:
        self._say(f"Opened {path}")
        if isinstance(what, Change):
            self._workspace.show_document(what.document, self._workspace.wanted)
            self._say(f"Opened {path.name}. {what.notice}", NOTICE_MS)
        elif self.is_untouched:
            self.take_in(what, path)
        else:
            self.anotherWanted.emit(what, path)

    def _fail(self, error: Exception) -> None:
        self._then = None
        self._say("")
        if isinstance(error, InputError):
            refuse(
                self._window, "Not opened" if error.field == "open" else "Not saved", error.sentence
            )
        else:
            self._window.show_bug("".join(traceback.format_exception(error)))

    def _say(self, words: str, for_ms: int = SAID_MS) -> None:
        self._window.statusBar().showMessage(words, for_ms)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What was read of a file: a document of its own, or a change of the one that is there."""

    what: Saved | Change
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """What was written into a file."""

    document: Document
    path: Path


def _written(path: Path, document: Document, view: View, shot: Shot | None) -> _Written:
    run = shot.run if shot else None
    files.write(path, lambda file: write_document(file, document, view, run))
    return _Written(document, path)
