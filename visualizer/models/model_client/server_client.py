"""Sends requests to a model server and restores lost connections. Does not import torch.

Each thread that sends a request uses its own connection.
"""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, IncompleteRead
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

from visualizer.errors import InputError, system_error_reason
from visualizer.models.model_protocol.authentication import SIGNATURE_HEADER, RequestSigner
from visualizer.models.model_protocol.requests import (
    MAX_BODY_BYTES,
    PROGRAM_NAME,
    request_too_large_message,
)
from visualizer.models.model_protocol.responses import (
    DEFLATE_CODING,
    JobProgress,
    ResponseBodyError,
    decode_response_body,
    decode_response_values,
    inflate,
)
from visualizer.models.model_protocol.server_address import (
    HAS_UNIX_SOCKETS,
    is_socket_path,
    split_address,
)
from visualizer.process_settings import POLL_INTERVAL_S, run_in_thread
from visualizer.progress import CancelledError, check_cancelled, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from visualizer.progress import Progress

    Response = tuple[dict[str, Any], dict[str, np.ndarray]]

CONNECT_TIMEOUT_S, RESPONSE_TIMEOUT_S = 5.0, 30.0
MAX_RESULT_WAIT_S = 0.5
"""Maximum time that one request waits for a result, in seconds; jobs are cancelled between
requests.
"""
RECONNECT_TIMEOUT_S = 6.0
"""Time during which the program tries to restore a lost connection, in seconds."""
CHECKS_PER_RETRY = 12
"""Number of cancellation checks between two attempts to reconnect."""
MAX_RESPONSE_BYTES = 2**31
"""Maximum size of a response, in bytes."""
MAX_MESSAGE_LENGTH = 2_000
UNREACHABLE_ERROR = (
    "The model server at {address} cannot be reached: {why}. Check that the address is "
    "correct and that the server is running."
)
CONNECTION_LOST_ERROR = (
    "The connection to the model server at {address} was lost: {why}. The program reconnects at "
    "the next change."
)
FOREIGN_SERVER_ERROR = "The program at {address} is not an Attention Visualizer model server."
JOB_ABANDONED_ERROR = (
    "The model server at {address} cancelled the job because its result was not requested in time. "
    "Try again."
)
NO_UNIX_SOCKETS_REASON = "Unix sockets are not supported on this system"
INVALID_RESPONSE_ERROR = "Invalid response from the model server at {address}: {why}."


class _ConnectionLostError(Exception):
    """A connection could not be established or was lost."""


class _AbandonedJobError(InputError):
    """The server cancelled a job because its result had not been requested for too long."""


class _UnixHttpConnection(HTTPConnection):
    """HTTP over a Unix socket, such as one that SSH forwards."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        if not HAS_UNIX_SOCKETS:
            raise OSError(NO_UNIX_SOCKETS_REASON)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CONNECT_TIMEOUT_S)
        self.sock.connect(self._path)


class _HttpConnection:
    """One HTTP connection."""

    def __init__(self, address: str, token: str) -> None:
        self._http = (
            _UnixHttpConnection(address)
            if is_socket_path(address)
            else HTTPConnection(*split_address(address), timeout=CONNECT_TIMEOUT_S)
        )
        try:
            status, greeting = self._send_and_receive("GET", "/", b"", {})
            fields = json.loads(greeting)
            nonce = fields["nonce"] if status == 200 and fields["program"] == PROGRAM_NAME else None
        except (ValueError, LookupError, TypeError):
            nonce = None
        if not isinstance(nonce, str):
            self.close()
            raise InputError("server", FOREIGN_SERVER_ERROR.format(address=address))
        self._signer = RequestSigner(token, nonce)
        if self._http.sock:
            self._http.sock.settimeout(RESPONSE_TIMEOUT_S)

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        return self._send_and_receive(
            "POST", path, body, {SIGNATURE_HEADER: self._signer.sign_request(path, body)}
        )

    def close(self) -> None:
        self._http.close()

    def _send_and_receive(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            self._http.request(method, path, body, {**headers, "Accept-Encoding": DEFLATE_CODING})
            with self._http.getresponse() as answer:
                content = answer.read(MAX_RESPONSE_BYTES)
                if answer.length and len(content) < MAX_RESPONSE_BYTES:
                    raise IncompleteRead(content, answer.length)
                is_packed = answer.getheader("content-encoding") == DEFLATE_CODING
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise _ConnectionLostError(_failure_reason(error)) from error
        try:
            return answer.status, inflate(content) if is_packed else content
        except ResponseBodyError:
            self.close()
            raise


def _failure_reason(error: Exception) -> str:
    """Return the reason why a request failed, as part of a sentence."""
    if isinstance(error, IncompleteRead):
        return "the response is incomplete"
    reason = system_error_reason(error) if isinstance(error, OSError) else ""
    return reason or type(error).__name__


def _close_connections(channels: list[_HttpConnection]) -> None:
    while channels:
        channels.pop().close()


class ModelServerClient:
    """The connections to one server.

    Parameters
    ----------
    address : str
        Host and port, or the path of a Unix socket.
    token : str
        Key that signs the requests.
    """

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token
        self._idle: list[_HttpConnection] = []
        self._opening = 0
        """Number of connections that are being opened."""
        self._channels_changed = Condition()
        self._was_reached = False
        finalize(self, _close_connections, self._idle)

    def open_connections(self, count: int) -> None:
        """Open connections in the background for concurrent requests that follow soon."""
        for _ in range(count):
            self._start_opening_connection()

    def _start_opening_connection(self) -> Future[None]:
        """Open a connection in the background; the first request that needs one uses it."""
        outcome: Future[None] = Future()
        # A daemon thread, because it may still be waiting for a server when the program exits.
        thread = Thread(target=self._open_connection, args=(outcome,), daemon=True)
        with self._channels_changed:
            thread.start()
            self._opening += 1
        return outcome

    def _open_connection(self, outcome: Future[None]) -> None:
        opened = []
        try:
            opened.append(_HttpConnection(self.address, self._token))
            outcome.set_result(None)
        except Exception as error:  # noqa: BLE001 - raised by the request that waits for it
            error.__cause__ = error.__context__ = None  # its frames refer to this object
            outcome.set_exception(error.with_traceback(None))
        finally:
            with self._channels_changed:
                self._opening -= 1
                self._idle += opened
                self._channels_changed.notify_all()

    def _take_idle_connection(self) -> _HttpConnection:
        """Return an idle connection, or wait for the first one that becomes idle.

        Waiting for any connection saves time because opening one can take seconds if packets are
        lost.
        """
        with self._channels_changed:
            if self._idle:
                return self._idle.pop()
        outcome = self._start_opening_connection()
        try:
            with self._channels_changed:
                self._channels_changed.wait_for(partial(self._is_wait_over, outcome))
                if self._idle:
                    return self._idle.pop()
            outcome.result()
            # Another request has taken the new connection.
            return _HttpConnection(self.address, self._token)
        finally:
            del outcome  # the future holds the error, and its traceback refers to this frame

    def _is_wait_over(self, outcome: Future[None]) -> bool:
        """Return whether a connection is idle or the requested one could not be opened."""
        has_failed = outcome.done() and outcome.exception() is not None
        return bool(self._idle) or has_failed or not self._opening

    def fetch_response(self, path: str, request: object) -> Response:
        """Send a request, and return the values and arrays of the response.

        Raises
        ------
        InputError
            With field ``text`` if the request is too large; with field ``server`` if the server
            cannot be reached or rejects the request; otherwise with the field that the server
            reported.
        CancelledError
            If the work on this thread was cancelled, or the result is no longer needed.
        """
        body, end = json.dumps(request).encode(), time.monotonic() + RECONNECT_TIMEOUT_S
        # The server would close the connection before the whole body is sent.
        if len(body) > MAX_BODY_BYTES:
            raise InputError("text", request_too_large_message(len(body)))
        while True:
            try:
                status, content = run_in_thread(
                    partial(self._send_request, path, body), can_abandon=True
                )
                return self._parse_response(status, content)
            except _ConnectionLostError as lost:
                if not self._was_reached or time.monotonic() > end:
                    message = CONNECTION_LOST_ERROR if self._was_reached else UNREACHABLE_ERROR
                    sentence = message.format(address=self.address, why=lost)
                    raise InputError("server", sentence) from lost
            except ResponseBodyError as damaged:
                raise self._invalid_response_error(damaged) from damaged
            for _ in range(CHECKS_PER_RETRY):
                time.sleep(POLL_INTERVAL_S)
                check_cancelled()

    def run_job(
        self,
        path: str,
        request: object,
        progress: Progress = ignore_progress,
        report: Callable[[Response], object] = lambda part: None,
    ) -> Response:
        """Run a job on the server, and return its result.

        Parameters
        ----------
        progress : callable
            Called with the progress; may raise `CancelledError`, which cancels the job.
        report : callable
            Called with partial results.

        Raises
        ------
        InputError, CancelledError
            As in `ask`.
        """
        try:
            return self._run_job(path, request, progress, report)
        except _AbandonedJobError:  # for example, because this machine was suspended
            return self._run_job(path, request, progress, report)

    def _run_job(
        self, path: str, request: object, progress: Progress, report: Callable[[Response], object]
    ) -> Response:
        check_cancelled()
        answer = self.fetch_response(path, request)
        number = answer[0].get("job")
        if number is None:
            return answer
        try:
            while True:
                check_cancelled()
                answer = self.fetch_response("/result", {"job": number, "wait": MAX_RESULT_WAIT_S})
                values = answer[0]
                if values.get("working") is True:
                    state = decode_response_values(JobProgress, values)
                    progress(state.done, state.of)
                elif values.get("is_part") is True:
                    report(answer)
                else:
                    return answer
        except CancelledError:
            with suppress(InputError):
                self.fetch_response("/cancel", {"job": number})
            raise

    def _send_request(self, path: str, body: bytes) -> tuple[int, bytes]:
        channel = self._take_idle_connection()
        # The server may have closed the connection; a new one then reports the error.
        with suppress(_ConnectionLostError):
            return self._send_over_connection(channel, path, body)
        return self._send_over_connection(_HttpConnection(self.address, self._token), path, body)

    def _send_over_connection(
        self, channel: _HttpConnection, path: str, body: bytes
    ) -> tuple[int, bytes]:
        status, content = channel.ask(path, body)
        self._was_reached = self._was_reached or status == 200
        if status == 401:
            channel.close()
        else:
            with self._channels_changed:
                self._idle.append(channel)
                self._channels_changed.notify()
        return status, content

    def _parse_response(self, status: int, content: bytes) -> Response:
        try:
            if status == 200:
                return decode_response_body(content)
            refusal = json.loads(content)
            field, sentence = (
                str(refusal["field"])[:60],
                str(refusal["sentence"])[:MAX_MESSAGE_LENGTH],
            )
        except (ResponseBodyError, ValueError, LookupError, TypeError) as error:
            raise self._invalid_response_error(error) from error
        if field == "cancelled":
            raise _AbandonedJobError("server", JOB_ABANDONED_ERROR.format(address=self.address))
        raise InputError(field, sentence)

    def _invalid_response_error(self, error: Exception) -> InputError:
        sentence = INVALID_RESPONSE_ERROR.format(address=self.address, why=error)
        return InputError("server", sentence[:MAX_MESSAGE_LENGTH])
