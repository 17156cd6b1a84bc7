"""Requests to a server of a model; a lost connection is tried again, and gone on from. No torch.

Requests of several threads go over connections of their own.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, IncompleteRead
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.errors import InputError, reason_of
from visualizer.models.model_protocol.answer_body import DEFLATE, BodyError, inflated, read_body
from visualizer.models.model_protocol.answer_values import JobProgress, values_as
from visualizer.models.model_protocol.request_signature import HEADER, RequestSigner
from visualizer.models.model_protocol.requests import MAX_BODY_BYTES, too_large_message
from visualizer.progress_callback import CancelledError, check_stopped, no_progress
from visualizer.python_thread_for_qt_thread import LOOK_S, on_python_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from visualizer.progress_callback import Progress

    Answer = tuple[dict[str, Any], dict[str, np.ndarray]]

CONNECT_S, ANSWER_S = 5.0, 30.0
POLL_S = 0.5
"""So long one question waits for the result of a job: a job is given up between two of them."""
TRIED_S = 6.0
"""So long a lost connection is tried again."""
PAUSES = 12
"""So often it is looked whether to stop before a lost connection is tried again."""
MAX_RESPONSE_BYTES = 2**31
"""Bytes of an answer that is taken."""
MAX_MESSAGE_LENGTH = 2_000
PROGRAM = "attention-visualizer"
UNREACHED = "The model's server at {address} cannot be reached: {why}."
LOST = (
    "The connection to the model's server at {address} was lost: {why}. It is tried again at the "
    "next change."
)
ANOTHER = "What answers at {address} is no server of this program."
GIVEN_UP = (
    "The model's server at {address} has given up what it was asked for, as nobody asked for the "
    "result for a while."
)
DAMAGED = "The model's server at {address} sent something else than an answer: {why}."


class _LostError(Exception):
    """A connection cannot be made, or has ended."""


class _GivenUpError(InputError):
    """The server has given up a job of which it was not asked for long."""


class _Line:
    """One connection."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._http = HTTPConnection(host, port, timeout=CONNECT_S)
        try:
            status, greeting = self._exchanged("GET", "/", b"", {})
            told = json.loads(greeting)
            nonce = told["nonce"] if status == 200 and told["program"] == PROGRAM else None
        except (ValueError, LookupError, TypeError):
            nonce = None
        if not isinstance(nonce, str):
            self.close()
            raise InputError("server", ANOTHER.format(address=f"{host}:{port}"))
        self._signer = RequestSigner(token, nonce)
        if self._http.sock:
            self._http.sock.settimeout(ANSWER_S)

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        return self._exchanged("POST", path, body, {HEADER: self._signer.header(path, body)})

    def close(self) -> None:
        self._http.close()

    def _exchanged(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            self._http.request(method, path, body, {**headers, "Accept-Encoding": DEFLATE})
            with self._http.getresponse() as answer:
                found = answer.read(MAX_RESPONSE_BYTES)
                if answer.length and len(found) < MAX_RESPONSE_BYTES:
                    raise IncompleteRead(found, answer.length)
                is_packed = answer.getheader("content-encoding") == DEFLATE
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise _LostError(_why(error)) from error
        try:
            return answer.status, inflated(found) if is_packed else found
        except BodyError:
            self.close()
            raise


def _why(error: Exception) -> str:
    """Say why a request has no answer."""
    if isinstance(error, IncompleteRead):
        return "its answer ended early"
    said = reason_of(error) if isinstance(error, OSError) else ""
    return said or type(error).__name__


def _close(lines: list[_Line]) -> None:
    while lines:
        lines.pop().close()


class ModelConnection:
    """The connections to one server.

    Parameters
    ----------
    token : str
        What its requests are signed with.
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self.host, self.port, self._token = host, port, token
        self._idle: list[_Line] = []
        self._opening = 0
        """Lines that are on their way to be idle."""
        self._came = Condition()
        self._was_reached = False
        finalize(self, _close, self._idle)

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"{self.host}:{self.port}"

    def open_ahead(self, count: int) -> None:
        """Open connections meanwhile, for what is soon asked at the same time."""
        for _ in range(count):
            self._open_one()

    def _open_one(self) -> Future[None]:
        """Open a line meanwhile, for whoever wants one first."""
        outcome: Future[None] = Future()
        # A daemon: it may wait for a server as the program ends.
        thread = Thread(target=self._open, args=(outcome,), daemon=True)
        with self._came:
            thread.start()
            self._opening += 1
        return outcome

    def _open(self, outcome: Future[None]) -> None:
        opened = []
        try:
            opened.append(_Line(self.host, self.port, self._token))
            outcome.set_result(None)
        except Exception as error:  # noqa: BLE001 - raised where something is asked
            error.__cause__ = error.__context__ = None  # their frames hold what holds this
            outcome.set_exception(error.with_traceback(None))
        finally:
            with self._came:
                self._opening -= 1
                self._idle += opened
                self._came.notify_all()

    def _line(self) -> _Line:
        """Return an idle line, or the first that is: one that is lost on its way takes seconds."""
        with self._came:
            if self._idle:
                return self._idle.pop()
        outcome = self._open_one()
        try:
            with self._came:
                self._came.wait_for(partial(self._has_ended, outcome))
                if self._idle:
                    return self._idle.pop()
            outcome.result()
            return _Line(self.host, self.port, self._token)  # another request has its own
        finally:
            del outcome  # with the error, whose traceback holds this frame

    def _has_ended(self, outcome: Future[None]) -> bool:
        """Whether there is an idle line, or the one that was asked for is none."""
        has_failed = outcome.done() and outcome.exception() is not None
        return bool(self._idle) or has_failed or not self._opening

    def ask(self, path: str, asked: object) -> Answer:
        """Send a request, and return the values and arrays of the answer.

        Raises
        ------
        InputError
            Of ``text``, when the request is too large; of ``server``, when it cannot be reached or
            refuses; else as the server says.
        CancelledError
            When the work on this thread is to stop, or nobody wants the answer any more.
        """
        body, end = json.dumps(asked).encode(), time.monotonic() + TRIED_S
        if len(body) > MAX_BODY_BYTES:  # the server would close the connection before it is sent
            raise InputError("text", too_large_message(len(body)))
        while True:
            try:
                status, found = on_python_thread(partial(self._asked, path, body), may_be_left=True)
                return self._read(status, found)
            except _LostError as lost:
                if not self._was_reached or time.monotonic() > end:
                    said = LOST if self._was_reached else UNREACHED
                    sentence = said.format(address=self.address, why=lost)
                    raise InputError("server", sentence) from lost
            except BodyError as damaged:
                raise self._refused(damaged) from damaged
            for _ in range(PAUSES):
                time.sleep(LOOK_S)
                check_stopped()

    def job(
        self,
        path: str,
        asked: object,
        progress: Progress = no_progress,
        report: Callable[[Answer], object] = lambda part: None,
    ) -> Answer:
        """Have a job done, and return the answer.

        Parameters
        ----------
        progress : callable
            Told how far it is; may raise `CancelledError`, by which the job is given up.
        report : callable
            Given parts of the answer.

        Raises
        ------
        InputError, CancelledError
            As `ask`.
        """
        try:
            return self._job(path, asked, progress, report)
        except _GivenUpError:  # this machine has slept, say
            return self._job(path, asked, progress, report)

    def _job(
        self,
        path: str,
        asked: object,
        progress: Progress,
        report: Callable[[Answer], object],
    ) -> Answer:
        check_stopped()
        answer = self.ask(path, asked)
        number = answer[0].get("job")
        if number is None:
            return answer
        try:
            while True:
                check_stopped()
                answer = self.ask("/result", {"job": number, "wait": POLL_S})
                values = answer[0]
                if values.get("working") is True:
                    how_far = values_as(JobProgress, values)
                    progress(how_far.done, how_far.of)
                elif values.get("is_part") is True:
                    report(answer)
                else:
                    return answer
        except CancelledError:
            with suppress(InputError):
                self.ask("/cancel", {"job": number})
            raise

    def _asked(self, path: str, body: bytes) -> tuple[int, bytes]:
        line = self._line()
        with suppress(_LostError):  # it may have been closed since; a new one tells
            return self._answered(line, path, body)
        return self._answered(_Line(self.host, self.port, self._token), path, body)

    def _answered(self, line: _Line, path: str, body: bytes) -> tuple[int, bytes]:
        status, found = line.ask(path, body)
        self._was_reached = self._was_reached or status == 200
        if status == 401:
            line.close()
        else:
            with self._came:
                self._idle.append(line)
                self._came.notify()
        return status, found

    def _read(self, status: int, found: bytes) -> Answer:
        try:
            if status == 200:
                return read_body(found)
            told = json.loads(found)
            field, sentence = str(told["field"])[:60], str(told["sentence"])[:MAX_MESSAGE_LENGTH]
        except (BodyError, ValueError, LookupError, TypeError) as error:
            raise self._refused(error) from error
        if field == "cancelled":
            raise _GivenUpError("server", GIVEN_UP.format(address=self.address))
        raise InputError(field, sentence)

    def _refused(self, error: Exception) -> InputError:
        """Say that an answer is none."""
        sentence = DAMAGED.format(address=self.address, why=error)
        return InputError("server", sentence[:MAX_MESSAGE_LENGTH])
