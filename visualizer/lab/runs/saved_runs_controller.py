"""Controls the stored runs: opening, overlaying, renaming, deleting and leaving them."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.errors import InputError
from visualizer.lab.runs import run_store
from visualizer.lab.runs.widget import ask_delete, ask_leaving
from visualizer.lab.training import background_training_controller
from visualizer.session.worker import Worker
from visualizer.widgets import app_settings
from visualizer.widgets.dialogs import ask_for_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.lab.lab_controller import LabController
    from visualizer.lab.runs.widget import RunsPane
    from visualizer.lab.training.losses import Losses


REST_S = 0.004
"""How long reading losses stands back after each part, which takes about a millisecond: a thread
that is always at work in Python holds up a window that looks on."""
LOOK_MS = 2000
"""How often it is looked whether those in the background are still at work."""


class RunController(QObject):
    """Does with runs what is wanted, and asks before any is interrupted or lost."""

    said = Signal(str)
    broke = Signal(str)
    settingsWanted = Signal()
    changed = Signal()
    """Other runs are there, or others are laid over the plot."""

    def __init__(self, lab: LabController, pane: RunsPane, window: QWidget) -> None:
        super().__init__(window)
        self._lab, self._pane, self._window = lab, pane, window
        self.runs: tuple[run_store.StoredRun, ...] = ()
        self.at_work: frozenset[str] = frozenset()
        """Runs that train in the background."""
        self.overlaid: dict[str, Losses] = {}
        self._wanted: set[str] = set()
        self._is_closed = Event()
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)
        self._watching = QTimer(self, interval=LOOK_MS)
        self._watching.timeout.connect(self.look)
        lab.opened.connect(self._remember)
        lab.opened.connect(self.look)
        self.look()

    def look(self) -> None:
        """Look which runs there are."""
        self.runs = run_store.kept(self._lab.home)
        names = {run.name for run in self.runs}
        self.overlaid = {name: one for name, one in self.overlaid.items() if name in names}
        self._wanted &= names
        self._see_who_works()
        self.changed.emit()

    def _remember(self) -> None:
        run = self._lab.run
        if run and run.folder.parent == self._lab.home:
            app_settings.save_last_run(run.name)

    def _see_who_works(self) -> None:
        own = self._lab.run.folder if self._lab.run else None
        others = (run for run in self.runs if run.folder != own)
        self.at_work = frozenset(
            run.name for run in others if background_training_controller.is_at_work(run.folder)
        )
        if bool(self.at_work) != self._watching.isActive():
            (self._watching.start if self.at_work else self._watching.stop)()

    @property
    def ticked(self) -> frozenset[str]:
        """The runs that are laid over the plot, or will be once they are read."""
        return frozenset(self._wanted.union(self.overlaid))

    def close(self) -> None:
        """Wait for what is being read, and look no more."""
        self._watching.stop()
        self._is_closed.set()
        self._worker.stop()

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
        try:
            self._lab.leave(goes_on)
        except InputError as refused:
            self.said.emit(refused.sentence)
        else:
            then()

    def begin_another(self) -> None:
        """Have the settings be changed, for another run."""
        self.leave(self._begin_another)

    def _begin_another(self) -> None:
        self.look()
        self.settingsWanted.emit()

    def choose_to_open(self) -> None:
        """Ask for the folder of a run."""
        ask_for_folder(self._window, "Open run folder", self._lab.home, self.open)

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
            self.overlaid.pop(name, None)
            self._wanted.discard(name)
        elif name not in self.overlaid:
            self._wanted.add(name)
            self._read()
        self.changed.emit()

    def _read(self) -> None:
        """Have the next losses read, off the GUI thread: of a long run, that takes seconds."""
        if self._wanted and not self._worker.is_working:
            self._worker.ask(partial(_losses, self._lab.home / min(self._wanted), self._rest))

    def _rest(self) -> None:
        """Let the window come in while losses are read; once it is closed, read no more."""
        if self._is_closed.wait(REST_S):
            raise InputError("losses", "The lab was closed.")

    def _take(self, answer: tuple[str, Losses | InputError]) -> None:
        name, read = answer
        if name in self._wanted:
            self._wanted.discard(name)
            if isinstance(read, InputError):
                self.said.emit(read.sentence)
            else:
                self.overlaid[name] = read
            self.changed.emit()
        self._read()

    def _fail(self, error: Exception) -> None:
        self._wanted.clear()
        self.broke.emit("".join(traceback.format_exception(error)))

    def rename(self) -> None:
        """Let the name of the chosen run be typed."""
        self._pane.edit_name()

    def rename_to(self, name: str, other: str) -> None:
        """Give a run another name, unless it is in use."""
        folder = self._lab.home / name
        try:
            self._refuse_used(folder, "renamed")
            run_store.renamed(folder, other)
            if app_settings.load_last_run() == name:
                app_settings.save_last_run(other.strip())
            if name in self.overlaid:
                self.overlaid[other.strip()] = self.overlaid.pop(name)
            elif name in self._wanted:
                self._wanted = self._wanted - {name} | {other.strip()}
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
            run_store.delete(folder)
        except InputError as refused:
            self.said.emit(refused.sentence)
        self.look()

    def _refuse_used(self, folder: Path, done: str) -> None:
        run = self._lab.run
        if run and run.folder == folder:
            sentence = f"“{folder.name}” is open. Begin or open another run, then it can be {done}."
            raise InputError("folder", sentence)
        if background_training_controller.is_at_work(folder):
            sentence = f"“{folder.name}” is training in the background. Open it and stop it first."
            raise InputError("folder", sentence)


def _losses(folder: Path, rest: Callable[[], None]) -> tuple[str, Losses | InputError]:
    try:
        return folder.name, run_store.losses_of(folder, rest)
    except InputError as refused:
        return folder.name, refused
