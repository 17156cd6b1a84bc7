"""The runs on the disk, from the hand's side: open, overlay, rename, delete, leave."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog

from visualizer.attention.errors import InputError
from visualizer.state.lab import shelf
from visualizer.ui.lab import background
from visualizer.ui.lab.asking import ask_delete, ask_leaving
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.state.lab.losses import Losses
    from visualizer.ui.lab.lab import Lab
    from visualizer.ui.lab.runs_pane import RunsPane


class Keeper(QObject):
    """Does with runs what is wanted, and asks before any is interrupted or lost."""

    said = Signal(str)
    broke = Signal(str)
    changed = Signal()
    """Other runs are there, or others are laid over the plot."""

    def __init__(self, lab: Lab, pane: RunsPane, window: QWidget) -> None:
        super().__init__(window)
        self._lab, self._pane, self._window = lab, pane, window
        self.runs: tuple[shelf.Kept, ...] = ()
        self.overlaid: dict[str, Losses] = {}
        self._laid: set[str] = set()
        self._wanted: list[str] = []
        """Names of runs whose losses are still to be read; the first is being read."""
        self._worker = Worker(self)
        self._worker.answered.connect(self._take_losses)
        self._worker.failed.connect(self._fail)
        lab.opened.connect(self.look)
        self.look()

    def close(self) -> None:
        """Wait for what is being read, and read no more."""
        self._worker.stop()

    def look(self) -> None:
        """Look which runs there are."""
        self.runs = shelf.kept(self._lab.home)
        names = {run.name for run in self.runs}
        self.overlaid = {name: one for name, one in self.overlaid.items() if name in names}
        self.changed.emit()

    # ------------------------------------------------------------------ opening and leaving

    def leave(self, then: Callable[[], object]) -> bool:
        """Let go of the run and do something then; say whether that could be done at once.

        A run that is training is asked about, and what comes then waits for the answer.
        """
        run = self._lab.run
        if run is None or not self._lab.is_training:
            self._go(False, then)
            return True
        ways = (partial(self._go, goes_on, then) for goes_on in (False, True))
        ask_leaving(self._window, run.name, *ways)
        return False

    def _go(self, goes_on: bool, then: Callable[[], object], *_: object) -> None:
        self._lab.leave(goes_on)
        then()

    def begin_another(self) -> None:
        """Have the settings be changed, for another run."""
        self.leave(self.look)

    def choose_to_open(self) -> None:
        """Ask for the folder of a run."""
        dialog = QFileDialog(self._window, "Open run folder", str(self._lab.home))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.open)
        dialog.open()

    def open_chosen(self) -> None:
        """Open the run that is chosen in the list."""
        if self._pane.chosen:
            self.open_name(self._pane.chosen)

    def open_name(self, name: str) -> None:
        """Open a run of the list."""
        self.open(self._lab.home / name)

    def open(self, folder: Path | str) -> None:
        """Open a run, in place of the one that is open."""
        run = self._lab.run
        if run is None or run.folder != Path(folder):
            self.leave(partial(self._lab.open, Path(folder)))

    # ------------------------------------------------------------------ what is kept

    def overlay(self, name: str, is_overlaid: bool) -> None:
        """Lay the losses of a run over the plot, or no longer."""
        if not is_overlaid:
            self._laid.discard(name)
            self.overlaid.pop(name, None)
        else:
            self._laid.add(name)
            self._wanted.append(name)
            if len(self._wanted) == 1:
                self._read_next()
        self.changed.emit()

    def _read_next(self) -> None:
        if self._wanted:
            self._worker.ask(partial(shelf.losses_of, self._lab.home / self._wanted[0]))

    def _take_losses(self, losses: Losses) -> None:
        name = self._wanted.pop(0)
        if name in self._laid:  # else it was taken off meanwhile
            self.overlaid[name] = losses
        self._read_next()
        self.changed.emit()

    def _fail(self, error: Exception) -> None:
        self._laid.discard(self._wanted.pop(0))
        self._read_next()
        if isinstance(error, InputError):
            self.said.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))
        self.changed.emit()

    def rename(self) -> None:
        """Let the name of the chosen run be typed."""
        self._pane.edit_name()

    def rename_to(self, name: str, other: str) -> None:
        """Give a run another name, unless it is in use."""
        folder = self._lab.home / name
        try:
            self._refuse_used(folder, "renamed")
            shelf.renamed(folder, other)
            if name in self.overlaid:
                self.overlaid[other.strip()] = self.overlaid.pop(name)
        except InputError as refused:
            self.said.emit(refused.sentence)
        self.look()

    def delete(self) -> None:
        """Ask whether the chosen run may be deleted."""
        name = self._pane.chosen
        if name:
            ask_delete(self._window, name, partial(self._delete, name))

    def _delete(self, name: str, *_: object) -> None:
        folder = self._lab.home / name
        try:
            self._refuse_used(folder, "deleted")
            shelf.delete(folder)
        except InputError as refused:
            self.said.emit(refused.sentence)
        self.look()

    def _refuse_used(self, folder: Path, done: str) -> None:
        run = self._lab.run
        if run and run.folder == folder:
            sentence = f"“{folder.name}” is open. Begin or open another run, then it can be {done}."
            raise InputError("folder", sentence)
        if background.is_at_work(folder):
            sentence = f"“{folder.name}” is training in the background. Open it and stop it first."
            raise InputError("folder", sentence)
