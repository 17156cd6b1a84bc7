"""Controls a training process: its start, its messages and its end."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PySide6.QtCore import (
    QCoreApplication,
    QEventLoop,
    QObject,
    QProcess,
    QProcessEnvironment,
    QTimer,
    Signal,
)

from visualizer.lab.training.run_state import RunFailure
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.resources import python_path_with_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_logger = logging.getLogger(__name__)
TRAINING_COMMAND = (sys.executable, "-P", "-m", "visualizer.language.training_process_main")
"""Command line of the training program. Only this program imports torch; the window does not.

``-P`` excludes the working directory from the module search path.
"""
RECORDING_COMMAND = (sys.executable, "-P", "-m", "visualizer.language.recording_server")
"""Command line of the program that reads recorded runs."""
MAX_DETAILS_BYTES = 64 * 1024
EXIT_TIMEOUT_MS = 60_000
"""Time, in milliseconds, that a process has for writing its checkpoint before it is killed."""
TERMINATED_MESSAGE = "Training did not stop within a minute and was terminated."
_KILLED = 9
UNSTARTED_MESSAGE = "The run had not been opened, so nothing has changed."


class ProcessEnd(Struct, frozen=True):
    """Describes how a training process ended.

    Parameters
    ----------
    failure : RunFailure or None
        The reason if the process ended without having been asked to, or None.
    is_terminated : bool
        Whether this program killed the process because it took too long to end.
    """

    failure: RunFailure | None = None
    is_terminated: bool = False


class TrainingProcess(QObject):
    """A process that trains one run and answers requests about its model.

    All methods return immediately: messages are written when the process reads them, and its
    responses are emitted as signals. `ended` is always emitted, and it is the last signal.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    """

    messageReceived = Signal(object)
    """Emitted with each `Message` from the process."""
    ended = Signal(object)
    """Emitted with a `ProcessEnd` when the process has ended."""

    def __init__(
        self, command: Sequence[str] = TRAINING_COMMAND, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._command = tuple(command)
        self._unpacker = MessageUnpacker()
        self._details = b""
        self.stopped_run: Path | None = None
        """Folder of a closed run that must not be trained after this process has ended."""
        self.is_over = self._is_end_expected = self._is_closing = self._was_killed = False
        self.has_opened = False
        """Whether the process has opened or created its run."""
        self._process = QProcess(self)
        self._process.setProcessEnvironment(process_environment())
        self._process.readyReadStandardOutput.connect(self._read_messages)
        self._process.readyReadStandardError.connect(self._append_error_output)
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)
        self._kill_timer = QTimer(self, singleShot=True, interval=EXIT_TIMEOUT_MS)
        self._kill_timer.timeout.connect(self._kill_unresponsive)

    @property
    def process_id(self) -> int:
        return self._process.processId()

    def start(self) -> None:
        _logger.info("Starting a training process")
        self._process.start(self._command[0], self._command[1:])

    def send_message(self, kind: str, **values: Any) -> None:
        """Send a message; if the process has ended, the message is dropped."""
        if not self.is_over:
            self._process.write(Message(kind, values).pack())

    def request_stop(self) -> None:
        """Ask the process to write a checkpoint and exit; if it cannot, it sends ``not_ended``.

        After a second request, it exits even without a checkpoint.
        """
        self._is_end_expected = True
        self.send_message("stop")
        self._kill_timer.start()

    def shut_down(self) -> None:
        """Make the process exit, after it has written a checkpoint if possible."""
        if self.is_over or self._is_closing:
            return
        self._is_closing = True
        # The parent is replaced, because it may be deleted before the process exits.
        self.setParent(QCoreApplication.instance())
        self.request_stop()
        self._process.closeWriteChannel()

    def _kill_unresponsive(self) -> None:
        self._was_killed = True
        self._process.kill()

    # ------------------------------------------------------------------ messages

    def _read_messages(self) -> None:
        try:
            for message in self._unpacker.unpack_piece(
                bytes(self._process.readAllStandardOutput().data())
            ):
                self.has_opened |= message.kind == "opened"
                if message.kind == "not_ended" and not self._is_closing:
                    self._is_end_expected = False
                    self._kill_timer.stop()
                self.messageReceived.emit(message)
        except (ValueError, TypeError) as error:  # printed text instead of a message
            self._details += f"\nInvalid message: {error!r}".encode()
            self._process.kill()

    def _append_error_output(self) -> None:
        self._details += self._process.readAllStandardError().data()
        self._details = self._details[-MAX_DETAILS_BYTES:]

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            why = self._process.errorString()
            sentence = f"Cannot start training: {why}."
            self._emit_ended(RunFailure(sentence, " ".join(self._command)))

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        _logger.info("A training process exited with status %d", code)
        self._read_messages()
        self._append_error_output()
        is_well = status is QProcess.ExitStatus.NormalExit and code == 0
        # Once a process has opened a run, another window can also ask the process to exit.
        if is_well and (self._is_end_expected or self.has_opened):
            self._emit_ended(None)
            return
        why = TERMINATED_MESSAGE if self._was_killed else _exit_reason(code, status)
        sentence = why if self.has_opened else f"{why} {UNSTARTED_MESSAGE}"
        self._emit_ended(RunFailure(sentence, self._details.decode(errors="replace").strip()))

    def _emit_ended(self, failure: RunFailure | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._kill_timer.stop()
        self.ended.emit(ProcessEnd(failure, self._was_killed))
        if self._is_end_expected or failure is None:
            self.deleteLater()


def wait_for_processes() -> None:
    """Wait until the processes of closed windows have ended."""
    # The list is queried each time, because other processes end in the meantime.
    while ending := _ending_processes():
        loop = QEventLoop()
        ending[0].ended.connect(loop.quit)
        loop.exec()


def is_stopping(folder: Path) -> bool:
    """Return whether a process of this program is still writing the checkpoint of a closed run."""
    return any(training.stopped_run == folder for training in _ending_processes())


def _ending_processes() -> list[TrainingProcess]:
    all_ = QCoreApplication.instance().findChildren(TrainingProcess)  # type: ignore[union-attr]
    return [training for training in all_ if not training.is_over]


def _exit_reason(code: int, status: QProcess.ExitStatus) -> str:
    if status is not QProcess.ExitStatus.CrashExit:
        return "Training stopped unexpectedly."
    if code == _KILLED:
        return "The operating system terminated training, most likely because memory ran out."
    return "The training process crashed or was terminated by another program."


def process_environment() -> QProcessEnvironment:
    """Return an environment in which a training process imports this copy of the package."""
    variables = QProcessEnvironment.systemEnvironment()
    variables.insert("PYTHONPATH", python_path_with_package(variables.value("PYTHONPATH")))
    return variables
