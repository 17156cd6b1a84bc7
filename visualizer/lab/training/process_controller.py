"""A training in a process of its own: what it is told, what it says, and how it may end.

Trainings without a window: to let one go on after closing, and to know that one is at work.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QCoreApplication,
    QEventLoop,
    QObject,
    QProcess,
    QProcessEnvironment,
    QTimer,
    Signal,
)

from visualizer.console_progress import say
from visualizer.errors import InputError
from visualizer.lab.training.model import Failure
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.resources import PACKAGE
from visualizer.storage.atomic_file import write
from visualizer.storage.contained_folder import path_of_open
from visualizer.storage.file_lock import is_held

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtCore import SignalInstance

SERVICE = (sys.executable, "-P", "-m", "visualizer.language.training_process")
"""The program that trains; it loads torch, which the window does not.

Nothing that lies where the program was started is taken for a module.
"""
LONGEST_DETAILS = 64 * 1024
PATIENCE_MS = 60_000
"""How long one that was told to end may take to write its checkpoint."""
_KILLED = 9
WHOLE = "Its last checkpoint is whole: open the run again to go on from there."
NOTHING = "It had not begun, and nothing is changed."


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a training's process ended.

    Parameters
    ----------
    failure : Failure or None
        Why, where nobody had asked for it.
    """

    failure: Failure | None = None


class TrainingProcess(QObject):
    """A process that trains one run, and answers what is asked of its model.

    Nothing here waits: what is told is written when the process reads, what it says is a signal.
    It is over with `ended`, always, and nothing is said after that.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    """

    said = Signal(object)
    """A `Message`."""
    ended = Signal(object)
    """How: an `ProcessEnd`."""

    def __init__(self, command: Sequence[str] = SERVICE, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = tuple(command)
        self._unpacker = MessageUnpacker()
        self._details = b""
        self.is_over = self._may_end = self._has_opened = False
        self._process = QProcess(self)
        self._process.setProcessEnvironment(environment())
        self._process.readyReadStandardOutput.connect(self._hear)
        self._process.readyReadStandardError.connect(self._keep_details)
        self._process.finished.connect(self._finish)
        self._process.errorOccurred.connect(self._err)
        self._patience = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._patience.timeout.connect(self._process.kill)

    @property
    def process_id(self) -> int:
        """The number that the system has given the process; 0 where there is none."""
        return int(self._process.processId())

    def start(self) -> None:
        """Have the process begin."""
        self._process.start(self._command[0], self._command[1:])

    def tell(self, says: str, **values: Any) -> None:
        """Say something to it; what it cannot be told any more is dropped."""
        if not self.is_over:
            self._process.write(Message(says, values).pack())

    def end(self) -> None:
        """Have it write a checkpoint and end; see `see_off`."""
        if self.is_over or self._may_end:
            return
        self._may_end = True
        self.setParent(QCoreApplication.instance())  # whoever had it may be gone before it is over
        self.tell("stop")
        self._process.closeWriteChannel()
        self._patience.start()

    # ------------------------------------------------------------------ what it says

    def _hear(self) -> None:
        try:
            for message in self._unpacker.feed(bytes(self._process.readAllStandardOutput().data())):
                self._has_opened |= message.says == "opened"
                self.said.emit(message)
        except (ValueError, TypeError) as error:  # no message, but something printed
            self._details += f"\nNot understood: {error!r}".encode()
            self._process.kill()

    def _keep_details(self) -> None:
        self._details += self._process.readAllStandardError().data()
        self._details = self._details[-LONGEST_DETAILS:]

    def _err(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            why = self._process.errorString()
            sentence = f"The training could not be started: {why}."
            self._be_over(Failure(sentence, " ".join(self._command)))

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        self._hear()
        self._keep_details()
        is_well = status is QProcess.ExitStatus.NormalExit and code == 0
        if is_well and self._may_end:
            self._be_over(None)
            return
        sentence = f"{_why(code, status)} {WHOLE if self._has_opened else NOTHING}"
        self._be_over(Failure(sentence, self._details.decode(errors="replace").strip()))

    def _be_over(self, failure: Failure | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._patience.stop()
        self.ended.emit(ProcessEnd(failure))
        if self._may_end:
            self.deleteLater()


def see_off() -> None:
    """Wait for the trainings that were told to end; their windows are gone already."""
    while ending := _ending():  # anew each time, as others end too meanwhile and are gone then
        loop = QEventLoop()
        ending[0].ended.connect(loop.quit)
        loop.exec()


def _ending() -> list[TrainingProcess]:
    all_ = QCoreApplication.instance().findChildren(TrainingProcess)  # type: ignore[union-attr]
    return [training for training in all_ if not training.is_over]


def _why(code: int, status: QProcess.ExitStatus) -> str:
    if status is not QProcess.ExitStatus.CrashExit:
        return "The training broke off."
    if code == _KILLED:
        return "The system ended the training, most often because the memory was full."
    return "The training was ended from outside."


def environment() -> QProcessEnvironment:
    """Give the surroundings of a training: it finds this very program, wherever it was started."""
    made = QProcessEnvironment.systemEnvironment()
    home = str(PACKAGE.parent)
    paths = [home, *filter(None, made.value("PYTHONPATH").split(os.pathsep))]
    made.insert("PYTHONPATH", os.pathsep.join(paths))
    return made


NOT_ALONE = "“{}” could not be left to go on in the background"
POLL_MS = 200
MOST_ORDERS = 2**20
"""Bytes."""
LONGEST_S = 60.0
"""How long one that has its orders may take until it holds the run: torch has to be loaded."""


def order(folder: Path) -> None:
    """Write what is said to a run that is to go on; from then on it is taken to be at work.

    It reads its orders from a file, as nobody is left to say them.

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
        write(RunFolder(folder).orders, lambda file: file.write(content))
    except InputError as refused:
        sentence = f"{NOT_ALONE.format(folder.name)}: {refused.sentence}"
        raise InputError("folder", sentence) from refused


def go_on(folder: Path, command: Sequence[str] = SERVICE) -> None:
    """Have a run that has its orders go on in a process that outlives this program.

    Raises
    ------
    InputError
        Of ``folder``, when they cannot be written, or the process cannot be started.
    """
    order(folder)  # anew, as its time begins now
    why = _start(RunFolder(folder), command)
    if why:
        take_back(folder)
        sentence = f"{NOT_ALONE.format(folder.name)}: {why}. It stands at its last checkpoint."
        raise InputError("folder", sentence)


def _start(run: RunFolder, command: Sequence[str]) -> str:
    """Start a process that reads a run's orders and outlives this one; say what is in the way."""
    process = QProcess()
    process.setProcessEnvironment(environment())
    process.setProgram(command[0])
    process.setArguments(list(command[1:]))
    process.setStandardOutputFile(QProcess.nullDevice())
    try:
        with run.orders.open(MOST_ORDERS) as orders, run.log.create() as log:
            process.setStandardInputFile(path_of_open(orders, run.orders))
            process.setStandardErrorFile(path_of_open(log, run.log))
            started: bool | tuple[bool, int] = process.startDetached()
    except OSError as error:
        return error.strerror or str(error)
    is_started = started if isinstance(started, bool) else started[0]
    return "" if is_started else process.errorString()


def take_over(
    folder: Path, command: Sequence[str], said: SignalInstance, ended: ProcessEnd
) -> None:
    """Have a run go on that a window has let go of; what is in the way is said in a sentence."""
    try:
        if ended.failure:
            take_back(folder)
            raise InputError("folder", ended.failure.sentence)
        go_on(folder, command)
    except InputError as refused:
        try:
            said.emit(refused.sentence)
        except RuntimeError:  # its window is closed
            say(refused.sentence)


def take_back(folder: Path) -> None:
    """Have a run not go on after all."""
    with suppress(OSError):
        RunFolder(folder).orders.unlink(missing_ok=True)


def is_at_work(folder: Path) -> bool:
    """Whether a run is being trained, here or elsewhere, or is about to be; nothing is written."""
    return _has_orders(folder) or _is_held(folder)


def _has_orders(folder: Path) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - RunFolder(folder).orders.stat().st_mtime < LONGEST_S
    return False


def _is_held(folder: Path) -> bool:
    lock = RunFolder(folder).lock
    try:
        return lock.is_file() and is_held(lock.path)
    except OSError:
        return True


def ask_to_stop(folder: Path) -> None:
    """Have whoever trains a run write a checkpoint and end."""
    with suppress(OSError):  # it has no folder any more
        RunFolder(folder).stop.touch()


class BackgroundTrainingWatcher(QObject):
    """Has whoever trains a run stop, and waits until it has.

    Orders alone do not prove that somebody will train it, as they may have come with a folder from
    elsewhere: nothing is written there before the run is held.
    """

    free = Signal(bool)
    """The run can be had; whether it was trained until then."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._folder: Path | None = None
        self._was_held = False
        self._polling = QTimer(self, interval=POLL_MS)
        self._polling.timeout.connect(self._look)

    def wait(self, folder: Path) -> None:
        """Wait for a run."""
        self._folder, self._was_held = folder, False
        self._ask()
        self._polling.start()

    def stop(self) -> None:
        """Wait no more."""
        self._polling.stop()

    def _ask(self) -> None:
        assert self._folder
        if _is_held(self._folder):
            self._was_held = True
            ask_to_stop(self._folder)

    def _look(self) -> None:
        assert self._folder
        if is_at_work(self._folder):
            self._ask()  # again: it may just have begun
            return
        self.stop()
        if self._was_held:
            with suppress(OSError):
                RunFolder(self._folder).stop.unlink(missing_ok=True)
        self.free.emit(self._was_held)
