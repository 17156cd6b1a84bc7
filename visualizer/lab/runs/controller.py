"""Controls the stored runs: opens, overlays, renames, deletes and closes them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from visualizer.errors import InputError
from visualizer.lab.runs import store
from visualizer.lab.training import background_controller
from visualizer.lab.training.run_state import RunPhase
from visualizer.language.recording import is_recording
from visualizer.language.run_folder import RunFolder
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets import app_settings
from visualizer.widgets.dialogs import ask_folder_path, create_message_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.lab.controller import LabStateController
    from visualizer.lab.runs.widget import RunsPane
    from visualizer.lab.training.loss_history import LossHistory


def ask_stop_training(
    window: QWidget,
    name: str,
    lost: str,
    stop: Callable[[], object],
    keep_training: Callable[[], object],
) -> None:
    """Ask whether training should stop or continue in the background; an open dialog is replaced.

    The newest question is kept, because it may come from elsewhere, for example from quitting the
    program. ``lost`` describes the steps that both answers may lose, if there are any.
    """
    _close_dialogs(window, "leaving")
    question = f"“{name}” is training. {lost}".rstrip()
    box = create_message_box(window, "leaving", QMessageBox.Icon.Question, question)
    box.setInformativeText(
        "Stop now, or keep training in the background? A stopped run can be resumed from its "
        "checkpoint. You can reopen a run at any time to see its progress."
    )
    stop_button = box.addButton("&Stop", QMessageBox.ButtonRole.AcceptRole)
    stop_button.clicked.connect(stop)
    _open_dialog(box, "&Keep training", keep_training)
    box.setDefaultButton(stop_button)


def ask_close_run(window: QWidget, name: str, lost: str, close: Callable[[], object]) -> None:
    """Ask whether to close a run although steps may be lost; ``lost`` describes them."""
    _close_dialogs(window, "losing")
    box = create_message_box(window, "losing", QMessageBox.Icon.Warning, f"Close “{name}”? {lost}")
    _open_dialog(box, "C&lose anyway", close)


def ask_delete_run(window: QWidget, name: str, delete: Callable[[], object]) -> None:
    """Ask whether to delete a run permanently."""
    if window.findChild(QMessageBox, "delete"):
        return
    question = f"Delete “{name}”, its losses and all saved weights?"
    box = create_message_box(window, "delete", QMessageBox.Icon.Question, question)
    box.setInformativeText("This cannot be undone.")
    _open_dialog(box, "&Delete", delete)


def _close_dialogs(window: QWidget, name: str) -> None:
    for dialog in window.findChildren(QMessageBox, name):
        dialog.close()


def _open_dialog(box: QMessageBox, text: str, action: Callable[[], object]) -> None:
    """Open a dialog with a button for a destructive action; the default button is Cancel."""
    box.addButton(text, QMessageBox.ButtonRole.DestructiveRole).clicked.connect(action)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.open()


READ_PAUSE_S = 0.004
"""Pause, in seconds, after reading each chunk of losses; reading one takes about a millisecond.

Without pauses, a thread that runs Python code makes the window unresponsive.
"""
POLL_INTERVAL_MS = 2000
"""Interval between checks of the background training runs, in milliseconds."""


class RunController(QObject):
    """Opens, overlays, renames and deletes runs, and asks before training is lost."""

    messageReported = Signal(str)
    failed = Signal(str)
    settingsRequested = Signal()
    changed = Signal()
    """Emitted when the list of runs or the set of overlaid runs has changed."""

    def __init__(self, lab: LabStateController, pane: RunsPane, window: QWidget) -> None:
        super().__init__(window)
        self._lab, self._pane, self._window = lab, pane, window
        self.runs: tuple[store.StoredRun, ...] = ()
        self.training_runs: frozenset[str] = frozenset()
        """The names of the runs that are training in the background."""
        self.overlaid_runs: dict[str, LossHistory] = {}
        self._pending_overlays: set[str] = set()
        self._is_closed = Event()
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._on_losses)
        self._worker.failed.connect(self._on_failure)
        self._pending_deletions: list[Path] = []
        """The folders of the runs that have to be deleted, one after another."""
        self._deleter = NewestRequestWorker(self)
        self._deleter.answered.connect(self._on_deleted)
        self._deleter.failed.connect(self._on_deleted)
        self._watch_timer = QTimer(self, interval=POLL_INTERVAL_MS)
        self._watch_timer.timeout.connect(self.refresh_runs)
        lab.opened.connect(self._save_last_run)
        lab.opened.connect(self.refresh_runs)
        self.refresh_runs()

    def refresh_runs(self) -> None:
        """Refresh the list of runs."""
        stored = store.list_runs(self._lab.runs_folder)
        self.runs = tuple(run for run in stored if run.folder not in self._pending_deletions)
        names = {run.name for run in self.runs}
        self.overlaid_runs = {
            name: one for name, one in self.overlaid_runs.items() if name in names
        }
        self._pending_overlays &= names
        self._update_background_runs()
        self.changed.emit()

    def _save_last_run(self) -> None:
        run = self._lab.run
        if run and run.folder.parent == self._lab.runs_folder:
            app_settings.save_last_lab_run(run.name)

    def _update_background_runs(self) -> None:
        own = self._lab.run.folder if self._lab.run else None
        others = (run for run in self.runs if run.folder != own)
        self.training_runs = frozenset(
            run.name for run in others if background_controller.is_training(run.folder)
        )
        if bool(self.training_runs) != self._watch_timer.isActive():
            (self._watch_timer.start if self.training_runs else self._watch_timer.stop)()

    @property
    def overlaid_names(self) -> frozenset[str]:
        """The names of the overlaid runs, including runs with losses that are still being read."""
        return frozenset(self._pending_overlays.union(self.overlaid_runs))

    def close(self) -> None:
        """Stop reading and checking runs; pending deletions are still completed."""
        self._watch_timer.stop()
        self._is_closed.set()
        self._worker.abandon()
        pending = tuple(self._pending_deletions)
        self._deleter.abandon(partial(_delete_all, pending) if pending else None)

    # ------------------------------------------------------------------ opening and leaving

    def close_run(self, then: Callable[[], object]) -> bool:
        """Close the run and call `then`; return whether this was done immediately.

        If the run is training or could not be saved, ask the user first, and call `then` after the
        user has agreed.
        """
        run, lab = self._lab.run, self._lab
        if run is None or lab.is_safe_to_close:
            self._close_and_continue(False, then)
            return True
        stop, keep_training = (
            partial(self._close_and_continue, continues, then) for continues in (False, True)
        )
        lost = _lost_steps_message(run.folder) if lab.is_unsaved else ""
        if lab.is_training:
            ask_stop_training(self._window, run.name, lost, stop, keep_training)
        else:
            ask_close_run(self._window, run.name, lost, stop)
        return False

    def _close_and_continue(self, continues: bool, then: Callable[[], object], *_: object) -> None:
        try:
            self._lab.close_run(continues)
        except InputError as refused:
            self.messageReported.emit(refused.sentence)
        else:
            then()

    def start_new_run(self) -> None:
        """Close the run and unlock the settings for a new one."""
        self.close_run(self._request_settings)

    def _request_settings(self) -> None:
        self.refresh_runs()
        self.settingsRequested.emit()

    def ask_and_open_folder(self) -> None:
        ask_folder_path(
            self._window, "Open run folder", self._lab.runs_folder, self.open_run_folder
        )

    def open_selected_run(self) -> None:
        if self._pane.selected_run:
            self.open_run_named(self._pane.selected_run)

    def open_run_named(self, name: str) -> None:
        self.open_run_folder(self._lab.runs_folder / name)

    def open_run_folder(self, folder: Path | str) -> None:
        """Open a run and close the current one, unless the folder contains no run.

        The current run itself is reopened only if it has failed or was changed elsewhere.
        """
        run, path, refused = self._lab.run, Path(folder), self._lab.refused
        if run and run.folder == path:
            is_changed_elsewhere = refused is not None and refused.field == "held"
            if run.phase is not RunPhase.FAILED and not is_changed_elsewhere:
                return
        elif run:
            try:
                store.read_run_metadata(path)
            except InputError as error:
                self.messageReported.emit(error.sentence)
                return
        self.close_run(partial(self._lab.open_run, path))

    # ------------------------------------------------------------------ the list

    def set_overlaid(self, name: str, is_overlaid: bool) -> None:
        """Overlay the losses of a run on the plot, or remove them from it."""
        if not is_overlaid:
            self.overlaid_runs.pop(name, None)
            self._pending_overlays.discard(name)
        elif name not in self.overlaid_runs:
            self._pending_overlays.add(name)
            self._read_next_losses()
        self.changed.emit()

    def _read_next_losses(self) -> None:
        """Read the next losses on a worker thread; reading a long run takes several seconds."""
        if self._pending_overlays and not self._worker.is_working:
            folder = self._lab.runs_folder / min(self._pending_overlays)
            pause = partial(_yield_to_window, self._is_closed)
            self._worker.submit(partial(_read_losses, folder, pause))

    def _on_losses(self, answer: tuple[str, LossHistory | InputError]) -> None:
        name, losses = answer
        if name in self._pending_overlays:
            self._pending_overlays.discard(name)
            if isinstance(losses, InputError):
                self.messageReported.emit(losses.sentence)
            else:
                self.overlaid_runs[name] = losses
            self.changed.emit()
        self._read_next_losses()

    def _on_failure(self, error: Exception) -> None:
        self._pending_overlays.clear()
        self._report_bug(error)

    def _report_bug(self, error: Exception) -> None:
        self.failed.emit(log_unexpected_error(error))

    def edit_selected_name(self) -> None:
        """Start to edit the name of the selected run."""
        self._pane.edit_selected_run_name()

    def rename_run(self, name: str, other: str) -> None:
        """Rename a run, unless it is in use."""
        folder = self._lab.runs_folder / name
        try:
            self._check_not_in_use(folder, "renamed")
            store.rename_run(folder, other)
            if app_settings.load_last_lab_run() == name:
                app_settings.save_last_lab_run(other.strip())
            if name in self.overlaid_runs:
                self.overlaid_runs[other.strip()] = self.overlaid_runs.pop(name)
            elif name in self._pending_overlays:
                self._pending_overlays = self._pending_overlays - {name} | {other.strip()}
        except InputError as refused:
            self.messageReported.emit(refused.sentence)
        self.refresh_runs()

    def ask_delete_selected_run(self) -> None:
        """Ask whether to delete the selected run."""
        name = self._pane.selected_run
        if name:
            ask_delete_run(self._window, name, partial(self.delete_run, name))

    def delete_run(self, name: str, *_: object) -> None:
        folder = self._lab.runs_folder / name
        try:
            self._check_not_in_use(folder, "deleted")
        except InputError as refused:
            self.messageReported.emit(refused.sentence)
        else:
            self._pending_deletions.append(folder)
            self._delete_next_run()
        self.refresh_runs()

    def _delete_next_run(self) -> None:
        if self._pending_deletions and not self._deleter.is_working:
            self._deleter.submit(partial(store.delete_run, self._pending_deletions[0]))

    def _on_deleted(self, refused: Exception | None) -> None:
        self._pending_deletions.pop(0)
        if isinstance(refused, InputError):
            self.messageReported.emit(refused.sentence)
        elif refused:
            self._report_bug(refused)
        self._delete_next_run()
        self.refresh_runs()

    def _check_not_in_use(self, folder: Path, done: str) -> None:
        run = self._lab.run
        if run and run.folder == folder:
            sentence = f"“{folder.name}” is open and cannot be {done}. Open another run first."
            raise InputError("folder", sentence)
        if background_controller.is_training(folder):
            sentence = f"“{folder.name}” is training in the background. Open and stop it first."
            if is_recording(RunFolder(folder)):
                sentence = f"“{folder.name}” is being recorded by another program."
            raise InputError("folder", sentence)


def _lost_steps_message(folder: Path) -> str:
    step = RunFolder(folder).checkpoint_step() or 0
    return (
        "The last checkpoint could not be saved. If saving fails again, "
        f"training after step {step:,} will be lost."
    )


def _yield_to_window(is_closed: Event) -> None:
    """Yield to the window while losses are read; abort if the window was closed."""
    if is_closed.wait(READ_PAUSE_S):
        raise InputError("losses", "The lab was closed.")


def _delete_all(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        with suppress(InputError):  # the window that would report the error is closed
            store.delete_run(folder)


def _read_losses(folder: Path, pause: Callable[[], None]) -> tuple[str, LossHistory | InputError]:
    try:
        return folder.name, store.read_losses(folder, pause)
    except InputError as refused:
        return folder.name, refused
