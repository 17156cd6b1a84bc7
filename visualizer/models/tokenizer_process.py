"""Controls the process that runs the tokenizers of all models. Does not import torch.

The tokenizers library holds the GIL for tenths of a second while it loads a vocabulary, and a
model's chat template is untrusted code, in which a single operation may never finish. In a separate
process, neither of them blocks the window, and the process can be killed.
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

from visualizer.errors import InputError, system_error_reason
from visualizer.language.wire_format import Message, read_messages
from visualizer.resources import python_path_with_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROCESS_COMMAND = (sys.executable, "-P", "-m", "visualizer.models.tokenizer_server")
LISTENER_THREAD_NAME = "tokenizer responses"
"""Name of the thread that receives responses while the process runs."""
MEMORY_CHECK_INTERVAL_S = 0.02
"""Interval, in seconds, between checks of the memory used for a response."""
PROCESS_EXITED_MESSAGE = "the tokenizer process exited unexpectedly; try again"
GRACE_PERIOD_S = 2.0
"""Time, in seconds, after the time limit before this program kills the process."""

ResponseQueue = SimpleQueue[Message | None]
"""Queue of responses; None marks the end of the process."""


class ProcessEndedError(Exception):
    """The process ended before it responded; the message states the reason."""


class _RequestNotSentError(ProcessEndedError):
    """The process ended before it received the request, so the request may be repeated."""


class TokenizerError(Exception):
    """The tokenizer library failed; the message states the reason."""


class ResponseLimits(Struct, frozen=True):
    """Limits on the response time and on the growth of the process's memory."""

    seconds: float
    bytes: int

    @property
    def time_limit_reason(self) -> str:
        """The reason that is reported if the time limit is exceeded."""
        return f"it took longer than {self.seconds:g} seconds"

    @property
    def memory_limit_reason(self) -> str:
        """The reason that is reported if the memory limit is exceeded."""
        return f"it needed more than {self.bytes // 2**20:,} MiB of memory"


LOADING_LIMITS = ResponseLimits(300, 4 * 2**30)


class TokenizerLocation(Struct, frozen=True):
    """The location of a tokenizer.

    Parameters
    ----------
    number : int
        Id of the tokenizer in the process.
    """

    number: int
    path: str
    name: str


class TokenizerProcess:
    """The tokenizer process: started on demand, and killed if it does not respond to a request."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._started: _StartedProcess | None = None
        self._closed: deque[int] = deque()
        """Ids of tokenizers that are no longer used."""

    def start(self) -> None:
        """Start the process in advance, if it is not running."""
        with self._lock, suppress(ProcessEndedError):  # the next request reports it
            self._ensure_running_process()

    def load_tokenizer(self, folder: TokenizerLocation) -> Mapping[str, Any]:
        """Load a tokenizer, and return its properties; errors are those of `ask`."""
        return self._request_with_restart(lambda started: self._load_tokenizer(started, folder))

    def send_request(
        self,
        folder: TokenizerLocation,
        kind: str,
        values: Mapping[str, Any],
        limits: ResponseLimits,
    ) -> Mapping[str, Any]:
        """Send a request to a tokenizer, wait for the response and return its values.

        Raises
        ------
        InputError
            If the process rejects the request.
        ProcessEndedError
            If the process ended before it responded; the next request starts a new one.
        TokenizerError
            If the tokenizer library failed.
        """

        def ask(started: _StartedProcess) -> Message:
            if folder.number not in started.loaded:
                response = self._load_tokenizer(started, folder)
                if response.kind != "answered":
                    return response
            return started.send_request(kind, {**values, "number": folder.number}, limits)

        return self._request_with_restart(ask)

    def close_tokenizer(self, number: int) -> None:
        """Mark a tokenizer for release, which happens before the next tokenizer is loaded.

        Does not block, so it may be called from a finalizer on any thread.
        """
        self._closed.append(number)

    def release_closed_tokenizers(self) -> None:
        """Release closed tokenizers; if none is left, the process exits after some time."""
        with self._lock, suppress(ProcessEndedError), self._kill_on_error():
            if self._closed and self._started and not self._started.has_ended:
                self._unload_closed_tokenizers(self._started)

    def kill(self) -> None:
        """Kill the process, if it is running."""
        with self._lock:
            self._kill_process()

    def _request_with_restart(self, ask: Callable[[_StartedProcess], Message]) -> Mapping[str, Any]:
        """Send a request; if the process had already ended, start a new one and send it again."""
        with self._lock:
            try:
                response = self._request_once(ask)
            except _RequestNotSentError:  # the end of a process is noticed with a delay
                response = self._request_once(ask)
        if response.kind == "refused":
            raise InputError(response.values["field"], response.values["sentence"])
        if response.kind == "failed":
            raise TokenizerError(response.values["reason"])
        return response.values

    def _request_once(self, ask: Callable[[_StartedProcess], Message]) -> Message:
        with self._kill_on_error():
            return ask(self._ensure_running_process())

    def _load_tokenizer(self, started: _StartedProcess, folder: TokenizerLocation) -> Message:
        if self._closed:
            self._unload_closed_tokenizers(started)
        values = {"number": folder.number, "folder": folder.path, "name": folder.name}
        response = started.send_request("load", values, LOADING_LIMITS)
        if response.kind == "answered":
            started.loaded.add(folder.number)
        return response

    def _unload_closed_tokenizers(self, started: _StartedProcess) -> None:
        closed = [self._closed.popleft() for _ in range(len(self._closed))]
        started.send_request("forget", {"numbers": closed}, LOADING_LIMITS)

    def _ensure_running_process(self) -> _StartedProcess:
        if self._started is None or self._started.has_ended:
            self._kill_process()
            self._started = _StartedProcess()
        return self._started

    @contextmanager
    def _kill_on_error(self) -> Iterator[None]:
        """Kill the process if an error occurs, because a late response would be misinterpreted."""
        try:
            yield
        except BaseException:
            self._kill_process()
            raise

    def _kill_process(self) -> None:
        started, self._started = self._started, None
        if started:
            started.kill()


class _StartedProcess:
    def __init__(self) -> None:
        path = python_path_with_package(os.environ.get("PYTHONPATH", ""))
        try:
            self._process = subprocess.Popen(
                PROCESS_COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": path},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            reason = f"the tokenizer process cannot be started: {system_error_reason(error)}"
            raise ProcessEndedError(reason) from error
        self._owner = os.getpid()
        self.loaded: set[int] = set()
        """Ids of the tokenizers that the process has loaded."""
        self._responses: ResponseQueue = SimpleQueue()
        listened = (self._process, self._responses)
        Thread(
            target=_receive_responses, args=listened, name=LISTENER_THREAD_NAME, daemon=True
        ).start()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, or was started by the parent of this forked process."""
        return self._owner != os.getpid() or self._process.poll() is not None

    def send_request(self, kind: str, values: Mapping[str, Any], limits: ResponseLimits) -> Message:
        """Send a message and wait for the response; see `TokenizerProcess.send_request`."""
        start = monotonic()  # before sending, because the process measures from arrival
        initial_memory = 0
        self._send_message(Message(kind, {**values, "seconds": limits.seconds}))
        while True:
            try:
                response = self._responses.get(timeout=MEMORY_CHECK_INTERVAL_S)
            except Empty:
                memory = self._memory_bytes()
                initial_memory = initial_memory or memory
                if memory - initial_memory > limits.bytes:
                    raise ProcessEndedError(limits.memory_limit_reason) from None
                if monotonic() - start > limits.seconds + GRACE_PERIOD_S:
                    raise ProcessEndedError(limits.time_limit_reason) from None
                continue
            if response is None:
                is_late = monotonic() - start >= limits.seconds
                raise ProcessEndedError(
                    limits.time_limit_reason if is_late else PROCESS_EXITED_MESSAGE
                )
            return response

    def _send_message(self, message: Message) -> None:
        assert self._process.stdin
        left = memoryview(message.pack())
        try:
            while left:
                left = left[self._process.stdin.write(left) :]
        except OSError as error:
            raise _RequestNotSentError(PROCESS_EXITED_MESSAGE) from error

    def _memory_bytes(self) -> int:
        with suppress(psutil.Error):  # it has ended
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def kill(self) -> None:
        """Kill the process and wait for it."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            assert self._process.stdin
            self._process.stdin.close()


def _receive_responses(process: subprocess.Popen[bytes], responses: ResponseQueue) -> None:
    assert process.stdout
    with process.stdout as source, suppress(OSError, ValueError):  # the data may be invalid
        for message in read_messages(source.fileno()):
            responses.put(message)
    responses.put(None)
    process.wait()  # avoids a zombie process


tokenizer_process = TokenizerProcess()
"""The shared tokenizer process."""
atexit.register(tokenizer_process.kill)
