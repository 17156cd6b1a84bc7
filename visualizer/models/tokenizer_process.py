"""The process that splits texts into tokens for all models of the program. No torch here.

The library of tokenizers holds Python's lock while it reads a vocabulary, for tenths of a second,
and the chat template of a model is code of a stranger, of which one operation may last for ever. In
a process of its own neither holds up the window, and it can be ended.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections import deque
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

import psutil
from msgspec import Struct

from visualizer.errors import InputError, reason_of
from visualizer.language.wire_format import Message, received_messages
from visualizer.resources import import_path_with_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

COMMAND = (sys.executable, "-P", "-m", "visualizer.models.tokenizer_process_main")
LISTENER = "answers about tokens"
"""The name of the thread that waits for the process, for as long as that runs."""
LOOKED_EVERY_S = 0.02
"""Interval of checks of the memory that an answer takes."""
ENDED = "the process that reads tokens ended before it answered; try again"
LATE_S = 2.0
"""So long after its time the process is ended from here, if it has not ended itself."""

Answers = SimpleQueue[Message | None]
"""Queue of answers; None marks the end of the process."""


class ProcessEndedError(Exception):
    """The process ended before it answered; its text is the reason."""


class _NotAskedError(ProcessEndedError):
    """The process had ended before the question reached it, which is no fault of the question."""


class AnswerError(Exception):
    """The library failed; its text is the reason that it gives."""


class AnswerLimits(Struct, frozen=True):
    """How long an answer may take, and how much memory the process may grow by meanwhile."""

    seconds: float
    bytes: int

    @property
    def takes_long(self) -> str:
        """The reason of an answer that took longer."""
        return f"it takes longer than {self.seconds:g} seconds"

    @property
    def takes_much(self) -> str:
        """The reason of an answer that took more memory."""
        return f"it takes more than {self.bytes // 2**20:,} MiB of memory"


LOADING = AnswerLimits(300, 4 * 2**30)


class TokenizerFolder(Struct, frozen=True):
    """Where a tokenizer is read from.

    Parameters
    ----------
    number : int
        What the process knows it by.
    path : str
        The model's folder.
    name : str
        What the model is called.
    """

    number: int
    path: str
    name: str


class TokenizerProcess:
    """Starts the process when it is needed, asks it, and ends it when it gives no answer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._started: _StartedProcess | None = None
        self._closed: deque[int] = deque()
        """The numbers of tokenizers that nothing asks about any more."""

    def start(self) -> None:
        """Start the process, if it does not run, before it is asked."""
        with self._lock, suppress(ProcessEndedError):  # which is said when it is asked
            self._running()

    def load(self, folder: TokenizerFolder) -> Mapping[str, Any]:
        """Have a tokenizer read, and return what is known of it.

        Raises
        ------
        ProcessEndedError, AnswerError
            When it cannot be read.
        """
        return self._answered(lambda started: self._load(started, folder))

    def ask(
        self, folder: TokenizerFolder, says: str, values: Mapping[str, Any], limits: AnswerLimits
    ) -> Mapping[str, Any]:
        """Send a message about a tokenizer, wait for the answer and return its values.

        Raises
        ------
        InputError
            As the answer says.
        ProcessEndedError
            When the process ended before; the next question is asked of a new one.
        AnswerError
            When the library failed.
        """

        def ask(started: _StartedProcess) -> Message:
            if folder.number not in started.loaded:
                answer = self._load(started, folder)
                if answer.says != "answered":
                    return answer
            return started.ask(says, {**values, "number": folder.number}, limits)

        return self._answered(ask)

    def close(self, number: int) -> None:
        """Have a tokenizer forgotten by `forget_closed`, or before the next one is read.

        Nothing waits here, so that it may be called wherever garbage is collected.
        """
        self._closed.append(number)

    def forget_closed(self) -> None:
        """Have the tokenizers forgotten that were closed; without any the process ends soon."""
        with self._lock, suppress(ProcessEndedError), self._ended_by_errors():
            if self._closed and self._started and not self._started.is_over:
                self._forget(self._started)

    def end(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._end()

    def _answered(self, ask: Callable[[_StartedProcess], Message]) -> Mapping[str, Any]:
        """Return the values of an answer, of a new process where the one before had ended."""
        with self._lock:
            try:
                answer = self._asked(ask)
            except _NotAskedError:  # that a process has ended is known a moment after it has
                answer = self._asked(ask)
        return _values_of(answer)

    def _asked(self, ask: Callable[[_StartedProcess], Message]) -> Message:
        with self._ended_by_errors():
            return ask(self._running())

    def _load(self, started: _StartedProcess, folder: TokenizerFolder) -> Message:
        if self._closed:
            self._forget(started)
        values = {"number": folder.number, "folder": folder.path, "name": folder.name}
        answer = started.ask("load", values, LOADING)
        if answer.says == "answered":
            started.loaded.add(folder.number)
        return answer

    def _forget(self, started: _StartedProcess) -> None:
        closed = [self._closed.popleft() for _ in range(len(self._closed))]
        started.ask("forget", {"numbers": closed}, LOADING)

    def _running(self) -> _StartedProcess:
        if self._started is None or self._started.is_over:
            self._end()
            self._started = _StartedProcess()
        return self._started

    @contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        """End the process where its answer is not waited for: it may come later."""
        try:
            yield
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        started, self._started = self._started, None
        if started:
            started.end()


class _StartedProcess:
    """A running process, and the answers that come from it."""

    def __init__(self) -> None:
        path = import_path_with_package(os.environ.get("PYTHONPATH", ""))
        try:
            self._process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": path},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            reason = f"no process can be started for it: {reason_of(error)}"
            raise ProcessEndedError(reason) from error
        self._owner = os.getpid()
        self.loaded: set[int] = set()
        """The numbers of the tokenizers that it has read."""
        self._answers: Answers = SimpleQueue()
        listened = (self._process, self._answers)
        Thread(target=_listen, args=listened, name=LISTENER, daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or belongs to the process that this one is a copy of."""
        return self._owner != os.getpid() or self._process.poll() is not None

    def ask(self, says: str, values: Mapping[str, Any], limits: AnswerLimits) -> Message:
        """Send a message and wait for the answer; see `TokenizerProcess.ask`."""
        start, first = monotonic(), 0  # before it is sent: the process counts from its arrival
        self._send(Message(says, {**values, "seconds": limits.seconds}))
        while True:
            try:
                answer = self._answers.get(timeout=LOOKED_EVERY_S)
            except Empty:
                taken = self._memory()
                first = first or taken
                if taken - first > limits.bytes:
                    raise ProcessEndedError(limits.takes_much) from None
                if monotonic() - start > limits.seconds + LATE_S:
                    raise ProcessEndedError(limits.takes_long) from None
                continue
            if answer is None:
                is_late = monotonic() - start >= limits.seconds
                raise ProcessEndedError(limits.takes_long if is_late else ENDED)
            return answer

    def _send(self, message: Message) -> None:
        assert self._process.stdin
        left = memoryview(message.pack())
        try:
            while left:
                left = left[self._process.stdin.write(left) :]
        except OSError as error:
            raise _NotAskedError(ENDED) from error

    def _memory(self) -> int:
        with suppress(psutil.Error):  # it has ended
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def end(self) -> None:
        """End it and wait until it is gone."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            assert self._process.stdin
            self._process.stdin.close()


def _listen(process: subprocess.Popen[bytes], answers: Answers) -> None:
    assert process.stdout
    with process.stdout as source, suppress(OSError, ValueError):  # what came may be no message
        for message in received_messages(source.fileno()):
            answers.put(message)
    answers.put(None)
    process.wait()  # or else the system would keep an entry of it


def _values_of(answer: Message) -> Mapping[str, Any]:
    if answer.says == "refused":
        raise InputError(answer.values["field"], answer.values["sentence"])
    if answer.says == "failed":
        raise AnswerError(answer.values["reason"])
    return answer.values


tokenizer_process = TokenizerProcess()
"""The one of this program."""
atexit.register(tokenizer_process.end)
