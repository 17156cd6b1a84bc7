"""Trainings without a window: starts, detects, stops and takes over background processes."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from visualizer.console_messages_and_progress import say
from visualizer.errors import InputError, reason_of
from visualizer.lab.training.process_controller import SERVICE, environment, is_stopping
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message
from visualizer.storage.atomic_file import write
from visualizer.storage.file_lock import is_held
from visualizer.storage.link_safe_folder import path_of_open

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtCore import SignalInstance

    from visualizer.lab.training.process_controller import ProcessEnd


DETACH_ERROR = "“{}” could not be left to go on in the background"
POLL_MS = 200
MAX_ORDERS_BYTES = 2**20
"""Largest size of an orders file in bytes."""
MAX_START_S = 60.0
"""How long a started process may take to lock its run: it imports torch first."""
_to_be_ordered: set[Path] = set()
"""Runs whose windows are closed and that go on once their processes have ended."""


def order(folder: Path) -> None:
    """Write the orders of a background training; from then on its run counts as training.

    The process reads its orders from a file, as no window sends them.

    Raises
    ------
    InputError
        Of ``folder``, when they cannot be written.
    """
    orders = (
        Message("open", {"folder": str(folder), "settings": None}),
        Message("leave"),
        Message("run"),
    )
    content = b"".join(order.pack() for order in orders)
    try:
        orders_file = RunFolder(folder).orders
        write(orders_file, lambda file: file.write(content), waits_for_disk=False)
    except InputError as refused:
        sentence = f"{DETACH_ERROR.format(folder.name)}: {refused.sentence}"
        raise InputError("folder", sentence) from refused


def order_later(folder: Path) -> None:
    """Have a run go on that has no orders yet, as its process would remove them when it begins."""
    _to_be_ordered.add(folder)


def go_on(folder: Path, command: Sequence[str] = SERVICE) -> None:
    """Continue a run that has its orders in a process that outlives this program.

    Raises
    ------
    InputError
        Of ``folder``, when they cannot be written, or the process cannot be started.
    """
    order(folder)  # written again, as `MAX_START_S` counts from now
    why = _start(RunFolder(folder), command)
    if why:
        take_back(folder)
        sentence = f"{DETACH_ERROR.format(folder.name)}: {why}. It stands at its last checkpoint."
        raise InputError("folder", sentence)


def _start(run: RunFolder, command: Sequence[str]) -> str:
    """Start a detached process that reads a run's orders; return an error, or nothing."""
    process = QProcess()
    process.setProcessEnvironment(environment())
    process.setProgram(command[0])
    process.setArguments(list(command[1:]))
    process.setStandardOutputFile(QProcess.nullDevice())
    try:
        with run.orders.open(MAX_ORDERS_BYTES) as orders, run.log.create() as log:
            process.setStandardInputFile(path_of_open(orders, run.orders))
            process.setStandardErrorFile(path_of_open(log, run.log))
            started: bool | tuple[bool, int] = process.startDetached()
    except OSError as error:
        return reason_of(error)
    is_started = started if isinstance(started, bool) else started[0]
    return "" if is_started else process.errorString()


def take_over(
    folder: Path, command: Sequence[str], said: SignalInstance, ended: ProcessEnd
) -> None:
    """Continue a run that a window has closed; emit a sentence if that fails."""
    is_wanted = folder in _to_be_ordered or RunFolder(folder).orders.is_file()
    _to_be_ordered.discard(folder)
    if not is_wanted:
        return  # it was stopped while the process of the window ended
    try:
        if ended.failure and not ended.is_given_up:  # which goes on from its last checkpoint
            take_back(folder)
            raise InputError("folder", ended.failure.sentence)
        go_on(folder, command)
    except InputError as refused:
        try:
            said.emit(refused.sentence)
        except RuntimeError:  # the window is closed
            say(refused.sentence)


def take_back(folder: Path) -> None:
    """Withdraw a run's orders."""
    _to_be_ordered.discard(folder)
    with suppress(OSError):
        RunFolder(folder).orders.unlink(missing_ok=True)


def is_at_work(folder: Path) -> bool:
    """Whether a run is being trained by any process, or about to be; writes nothing."""
    return folder in _to_be_ordered or _has_orders(folder) or _is_held(folder)


def _has_orders(folder: Path) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - RunFolder(folder).orders.stat().st_mtime < MAX_START_S
    return False


def _is_held(folder: Path) -> bool:
    lock = RunFolder(folder).lock
    try:
        return lock.is_file() and is_held(lock.path)
    except OSError:
        return True


def ask_to_stop(folder: Path) -> None:
    """Ask the process that trains a run to write a checkpoint and end."""
    with suppress(OSError):  # its folder is gone
        RunFolder(folder).stop.touch()


def _withdraw(folder: Path) -> bool:
    """Withdraw a request to stop; return whether the process that trains the run left it there."""
    with suppress(OSError):
        RunFolder(folder).stop.unlink()
        return True
    return False


class BackgroundTrainingWatcher(QObject):
    """Asks the process that trains a run to stop, and waits until it has.

    Orders alone do not prove that a process will train the run, as the folder may have been copied
    from elsewhere: nothing is written there before the run is locked.
    """

    free = Signal(bool)
    """The run is free; carries whether it was being trained until then."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._folder: Path | None = None
        self._was_held = False
        self._polling = QTimer(self, interval=POLL_MS)
        self._polling.timeout.connect(self._poll)

    def wait(self, folder: Path) -> None:
        self._folder, self._was_held = folder, False
        self._ask()
        self._polling.start()

    def stop(self) -> None:
        self._polling.stop()

    def leave(self, goes_on: bool, command: Sequence[str]) -> None:
        """Wait no more: the training stops, or goes on although it was asked to stop.

        Raises
        ------
        InputError
            Of ``folder``, when it cannot go on.
        """
        assert self._folder
        if not goes_on:
            take_back(self._folder)  # those of a process that does not hold the run yet
            self._ask()
        elif self._was_held and not _withdraw(self._folder):
            go_on(self._folder, command)
        self.stop()

    def _ask(self) -> None:
        assert self._folder
        if _is_held(self._folder) and not is_stopping(self._folder):
            self._was_held = True
            ask_to_stop(self._folder)

    def _poll(self) -> None:
        assert self._folder
        if is_at_work(self._folder):
            self._ask()  # again: the process may just have locked the run
            return
        self.stop()
        was_trained = self._was_held and not RunFolder(self._folder).has_rested
        if self._was_held:
            _withdraw(self._folder)
        self.free.emit(was_trained)
