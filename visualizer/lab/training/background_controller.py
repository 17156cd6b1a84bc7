"""Controls background training: starts, detects, stops and takes over detached processes."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from visualizer.console import print_message
from visualizer.errors import InputError, system_error_reason
from visualizer.lab.training.process_controller import (
    TRAINING_COMMAND,
    is_stopping,
    process_environment,
)
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message
from visualizer.storage.atomic_file import write_atomically
from visualizer.storage.file_lock import is_held
from visualizer.storage.symlink_safe_folder import path_of_open_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtCore import SignalInstance

    from visualizer.lab.training.process_controller import ProcessEnd
    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile


DETACH_ERROR = "Cannot continue training “{}” in the background"
POLL_MS = 200
MAX_ORDERS_BYTES = 2**20
"""Maximum size of the file with the orders, in bytes."""
MAX_START_S = 60.0
"""Maximum time, in seconds, until a new process, which first imports torch, locks its run."""
_pending_orders: set[Path] = set()
"""Folders of runs that will continue in the background once the processes of their windows end."""


def write_training_orders(folder: Path) -> None:
    """Write the orders for background training; from then on, the run is considered in training.

    The background process reads its orders from a file, because no window sends them.

    Raises
    ------
    InputError
        With field ``folder`` if the orders cannot be written.
    """
    orders = (
        Message("open", {"folder": str(folder), "settings": None}),
        Message("leave"),
        Message("run"),
    )
    content = b"".join(order.pack() for order in orders)
    try:
        orders_file = RunFolder(folder).orders_file
        write_atomically(orders_file, lambda file: file.write(content), waits_for_disk=False)
    except InputError as refused:
        sentence = f"{DETACH_ERROR.format(folder.name)}: {refused.sentence}"
        raise InputError("folder", sentence) from refused


def mark_continuation_pending(folder: Path) -> None:
    """Mark a run to continue later: its process is still starting and would remove the orders."""
    _pending_orders.add(folder)


def continue_in_background(folder: Path, command: Sequence[str] = TRAINING_COMMAND) -> None:
    """Continue a run in a detached process, which can outlive this program.

    Raises
    ------
    InputError
        With field ``folder`` if the orders cannot be written or the process cannot start.
    """
    write_training_orders(folder)  # written again, because `MAX_START_S` is measured from now
    why = _start_process(RunFolder(folder), command)
    if why:
        withdraw_orders(folder)
        resume = "It can be resumed from its last checkpoint."
        sentence = f"{DETACH_ERROR.format(folder.name)}: {why}. {resume}"
        raise InputError("folder", sentence)


def _start_process(run: RunFolder, command: Sequence[str]) -> str:
    """Start a detached process that reads a run's orders; return an error message, or ""."""
    process = QProcess()
    process.setProcessEnvironment(process_environment())
    process.setProgram(command[0])
    process.setArguments(list(command[1:]))
    process.setStandardOutputFile(QProcess.nullDevice())
    try:
        with run.orders_file.open(MAX_ORDERS_BYTES) as orders, run.log_file.create() as log:
            process.setStandardInputFile(path_of_open_file(orders, run.orders_file))
            process.setStandardErrorFile(path_of_open_file(log, run.log_file))
            started: bool | tuple[bool, int] = process.startDetached()
    except OSError as error:
        return system_error_reason(error)
    is_started = started if isinstance(started, bool) else started[0]
    return "" if is_started else process.errorString()


def continue_closed_run(
    folder: Path, command: Sequence[str], said: SignalInstance, ended: ProcessEnd
) -> None:
    """Continue a run after its window was closed; if this fails, emit an error message."""
    is_wanted = folder in _pending_orders or RunFolder(folder).orders_file.is_file()
    _pending_orders.discard(folder)
    if not is_wanted:
        return  # the run was stopped while the window's process was ending
    try:
        # If the process was killed, the run resumes from its last checkpoint.
        if ended.failure and not ended.is_terminated:
            withdraw_orders(folder)
            raise InputError("folder", ended.failure.sentence)
        continue_in_background(folder, command)
    except InputError as refused:
        try:
            said.emit(refused.sentence)
        except RuntimeError:  # the window is closed
            print_message(refused.sentence)


def withdraw_orders(folder: Path) -> None:
    """Withdraw the orders of a run."""
    _pending_orders.discard(folder)
    with suppress(OSError):
        RunFolder(folder).orders_file.unlink(missing_ok=True)


def is_training(folder: Path) -> bool:
    """Return whether a process is training a run or is about to, or is recording it.

    This check writes nothing.
    """
    is_recorded = _is_held(RunFolder(folder).recording_lock_file)
    return is_recorded or folder in _pending_orders or _has_orders(folder) or _is_locked(folder)


def _has_orders(folder: Path) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - RunFolder(folder).orders_file.stat().st_mtime < MAX_START_S
    return False


def _is_locked(folder: Path) -> bool:
    return _is_held(RunFolder(folder).lock_file)


def _is_held(lock: SymlinkSafeFile) -> bool:
    try:
        return lock.is_file() and is_held(lock.path)
    except OSError:
        return True


def request_stop(folder: Path) -> None:
    """Ask the process that trains a run to write a checkpoint and exit."""
    with suppress(OSError):  # the folder no longer exists
        RunFolder(folder).stop_file.touch()


class BackgroundTrainingStopper(QObject):
    """Asks the process that trains a run to stop, and waits until the process has stopped.

    Orders do not prove that a process will train the run, because the run's folder may be a copy.
    Therefore, nothing is written to the folder before the run is locked.
    """

    runReleased = Signal(bool)
    """Emitted when the run is no longer locked; the argument is whether it was being trained."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._folder: Path | None = None
        self._was_held = False
        self._poll_timer = QTimer(self, interval=POLL_MS)
        self._poll_timer.timeout.connect(self._check_run)

    def stop_and_wait_for_run(self, folder: Path) -> None:
        self._folder, self._was_held = folder, False
        self._request_stop()
        self._poll_timer.start()

    def stop_polling(self) -> None:
        self._poll_timer.stop()

    def stop_waiting(self, continues: bool, command: Sequence[str]) -> None:
        """Stop waiting for the run; its training stops, or continues despite the stop request.

        Raises
        ------
        InputError
            With field ``folder`` if the training cannot continue.
        """
        assert self._folder
        if not continues:
            withdraw_orders(self._folder)  # in case the process has not locked the run yet
            self._request_stop()
        elif self._was_held and not RunFolder(self._folder).withdraw_stop_request():
            continue_in_background(self._folder, command)
        self.stop_polling()

    def _request_stop(self) -> None:
        assert self._folder
        if _is_locked(self._folder) and not is_stopping(self._folder):
            self._was_held = True
            request_stop(self._folder)

    def _check_run(self) -> None:
        assert self._folder
        if is_training(self._folder):
            self._request_stop()  # again, because the process may have just locked the run
            return
        self.stop_polling()
        run = RunFolder(self._folder)
        was_trained = self._was_held and not run.was_stopped_while_idle
        if self._was_held:
            run.withdraw_stop_request()
        self.runReleased.emit(was_trained)
