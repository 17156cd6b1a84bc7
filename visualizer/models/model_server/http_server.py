"""HTTP server for a model: accepts signed JSON requests and returns safetensors.

Unsigned requests are rejected before their body is read. Sizes of headers and bodies, durations and
the number of connections are limited, and unauthenticated connections are closed first. A request
must state its length instead of using chunked encoding, because chunks of one byte each would take
much more memory than their content.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import traceback
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import h11
import msgspec

from visualizer.models.model_protocol.authentication import SIGNATURE_HEADER, SignatureVerifier
from visualizer.models.model_protocol.requests import (
    IMMEDIATE_REQUESTS,
    JOB_REQUESTS,
    MAX_BODY_BYTES,
    PROGRAM_NAME,
    CancelJobRequest,
    JobResultRequest,
    request_too_large_message,
)
from visualizer.models.model_protocol.responses import DEFLATE_CODING, deflate, encode_response_body
from visualizer.models.model_server.rank_processes import JobCancelledError, JobFailedError
from visualizer.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.model_server.job_queue import JobQueue

MAX_HEADER_BYTES = 2**14
"""Maximum size of a request's header, in bytes."""
BYTES_PER_READ = 2**16
"""Maximum number of bytes read from a connection at a time."""
HEADER_TIMEOUT_S, BODY_TIMEOUT_S, IDLE_TIMEOUT_S = 10.0, 30.0, 900.0
"""Time limits, in seconds, for a header, for a body, and for an authenticated connection without
requests.
"""
SEND_TIMEOUT_S = 60.0
"""Time limit, in seconds, for the client to receive each chunk of a response."""
BYTES_PER_SEND = 2**20
"""Size of the chunks in which a response is sent, in bytes."""
MAX_UNAUTHENTICATED = 512
"""Maximum number of connections without a signed request; the oldest are closed first.

A client is disconnected before its first signed request only if at least this many others have
connected in the meantime.
"""
MAX_AUTHENTICATED = 32
"""Maximum number of connections with a signed request; connections without one cannot displace
them.
"""
MAX_OPEN_FILES = 2 * (MAX_UNAUTHENTICATED + MAX_AUTHENTICATED)
"""Number of open files that the maximum numbers of connections require."""
UNAUTHORIZED_ERROR = (
    "The token is incorrect, or the request has already been used. Check the token."
)
LENGTH_REQUIRED_ERROR = "The request has no Content-Length header."
INTERNAL_ERROR = "The server encountered an internal error. See its console for details."
MALFORMED_REQUEST_ERROR = "Invalid request: {why}."
LOADING_ERROR = "The server is still loading the model. Try again in a moment."
UNKNOWN_PATH_ERROR = "Unknown request path."
CANCELLED_ERROR = "The job was cancelled."


class _HttpError(Exception):
    """An error response, after which the connection may be closed."""

    def __init__(self, status: int, field: str, sentence: str, *, closes: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.field, self.sentence = status, field, sentence
        self.closes_connection = closes


class _ClientConnection:
    """One client connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self.reader, self.writer = reader, writer
        self.verifier = SignatureVerifier(token)
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self.is_authenticated = self.is_greeted = False
        self.deadline = asyncio.get_running_loop().time() + HEADER_TIMEOUT_S
        """Time at which the connection is closed unless the client has sent a signed request."""

    async def next_event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(BYTES_PER_READ))
        return event

    @property
    def header_timeout_s(self) -> float:
        """Time limit, in seconds, for the header of the next request."""
        remaining = self.deadline - asyncio.get_running_loop().time()
        return HEADER_TIMEOUT_S if self.is_authenticated else max(0.0, remaining)

    async def wait_for_data(self) -> None:
        """Wait for the start of the next request unless it has already been received."""
        if not self.http.trailing_data[0]:
            self.http.receive_data(await self.reader.read(BYTES_PER_READ))

    async def body(self, headers: dict[bytes, bytes], max_bytes: int) -> bytes:
        """Read the body of the request; reject a body that is too large or of unknown length."""
        if b"transfer-encoding" in headers:
            raise _HttpError(411, "server", LENGTH_REQUIRED_ERROR, closes=True)
        if (size := int(headers.get(b"content-length", b"0"))) > max_bytes:
            raise _HttpError(413, "server", request_too_large_message(size), closes=True)
        content = bytearray()
        while not isinstance(event := await self.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ConnectionError
            content += event.data
        return bytes(content)

    async def send(
        self, status: int, kind: str, body: bytes, *, closes: bool, may_deflate: bool
    ) -> None:
        headers = [("content-type", kind)]
        if may_deflate and (packed := deflate(body)):
            body = packed
            headers.append(("content-encoding", DEFLATE_CODING))
        headers.append(("content-length", str(len(body))))
        if closes:
            headers.append(("connection", "close"))
        data = self.http.send(h11.Response(status_code=status, headers=headers)) or b""
        self.writer.write(data)
        # The body is sent in pieces so that the transport does not buffer a copy of the whole body.
        for start in range(0, len(body), BYTES_PER_SEND):
            piece = body[start : start + BYTES_PER_SEND]
            self.writer.write(self.http.send(h11.Data(data=piece)) or b"")
            await asyncio.wait_for(self.writer.drain(), SEND_TIMEOUT_S)
        self.writer.write(self.http.send(h11.EndOfMessage()) or b"")
        await asyncio.wait_for(self.writer.drain(), SEND_TIMEOUT_S)


class ModelServer:
    """Server that responds to HTTP requests about a model.

    Parameters
    ----------
    token : str
        Key with which requests are signed.
    """

    def __init__(self, jobs: JobQueue, token: str) -> None:
        self._jobs, self._token = jobs, token
        self._metadata: dict[str, Any] = {}
        self._connections_by_state: dict[bool, dict[_ClientConnection, None]] = {
            False: {},
            True: {},
        }
        """Open connections, oldest first, grouped by whether they have sent a signed request."""

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Start listening; requests receive status 503 until the model is loaded.

        Raises
        ------
        OSError
            If the address cannot be used.
        """
        _raise_open_file_limit()
        # A small limit, because clients without a token can fill the buffers.
        return await asyncio.start_server(
            self._handle_connection, host, port, limit=MAX_HEADER_BYTES
        )

    async def listen_on_socket(self, path: Path) -> asyncio.Server:
        """Start listening on a Unix socket that only the user of this process can access.

        A socket that a killed server has left is replaced; the caller removes the socket.

        Raises
        ------
        OSError
            If the path cannot be used, or another server uses it.
        """
        _raise_open_file_limit()
        return await asyncio.start_unix_server(
            self._handle_connection, sock=_bind_private_socket(path), limit=MAX_HEADER_BYTES
        )

    def start_responding(self, metadata: dict[str, Any]) -> None:
        """Start responding to requests, once the model is loaded."""
        self._metadata = metadata

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = _ClientConnection(reader, writer, self._token)
        self._add_connection(connection)
        try:
            while await self._respond(connection):
                pass
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), SEND_TIMEOUT_S)
        except (TimeoutError, OSError, h11.RemoteProtocolError, h11.LocalProtocolError):
            pass  # the client disconnected, is too slow, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the server shuts down; Python before 3.12 would print this to the console
        finally:
            self._connections_by_state[connection.is_authenticated].pop(connection, None)
            writer.transport.abort()  # unsent data would otherwise stay in memory

    def _add_connection(self, connection: _ClientConnection) -> None:
        """Register a connection, and close the oldest of the same kind if there are too many."""
        same_kind = self._connections_by_state[connection.is_authenticated]
        same_kind[connection] = None
        limit = MAX_AUTHENTICATED if connection.is_authenticated else MAX_UNAUTHENTICATED
        while len(same_kind) > limit:
            oldest = next(iter(same_kind))
            del same_kind[oldest]
            oldest.writer.transport.abort()

    def _mark_authenticated(self, connection: _ClientConnection) -> None:
        if not connection.is_authenticated:
            self._connections_by_state[False].pop(connection, None)
            connection.is_authenticated = True
            self._add_connection(connection)

    async def _respond(self, connection: _ClientConnection) -> bool:
        """Respond to one request, and return whether another one can follow."""
        if connection.is_authenticated:
            await asyncio.wait_for(connection.wait_for_data(), IDLE_TIMEOUT_S)
        event = await asyncio.wait_for(connection.next_event(), connection.header_timeout_s)
        if not isinstance(event, h11.Request):
            return False
        closes = False
        try:
            status, kind, body = 200, "application/octet-stream", b""
            path = event.target.decode("ascii", "replace")
            if event.method == b"GET" and path == "/":
                if connection.is_greeted:  # limits the work that a client without a token can cause
                    return False
                connection.is_greeted = True
                await asyncio.wait_for(connection.body(dict(event.headers), 0), BODY_TIMEOUT_S)
                kind, body = "application/json", self._greeting_body(connection)
            else:
                body = await self._respond_to_signed(connection, event, path)
        except _HttpError as response:
            status, kind, closes = response.status, "application/json", response.closes_connection
            body = json.dumps({"field": response.field, "sentence": response.sentence}).encode()
        accepted = dict(event.headers).get(b"accept-encoding", b"")
        may_deflate = accepted == DEFLATE_CODING.encode()
        await connection.send(status, kind, body, closes=closes, may_deflate=may_deflate)
        if closes or connection.http.our_state is h11.MUST_CLOSE:
            return False
        connection.http.start_next_cycle()
        return True

    def _greeting_body(self, connection: _ClientConnection) -> bytes:
        greeting = {"program": PROGRAM_NAME, "version": __version__}
        return json.dumps({**greeting, "nonce": connection.verifier.nonce}).encode()

    async def _respond_to_signed(
        self, connection: _ClientConnection, event: h11.Request, path: str
    ) -> bytes:
        """Check the signature of a request, and return the body of the response."""
        headers = dict(event.headers)
        signature = headers.get(SIGNATURE_HEADER.encode(), b"").decode("ascii", "replace")
        digest = connection.verifier.verify_and_get_digest(signature, path)
        if event.method != b"POST" or digest is None:
            raise _HttpError(401, "token", UNAUTHORIZED_ERROR, closes=True)
        self._mark_authenticated(connection)
        body = await asyncio.wait_for(connection.body(headers, MAX_BODY_BYTES), BODY_TIMEOUT_S)
        if sha256(body).hexdigest() != digest:
            raise _HttpError(401, "token", UNAUTHORIZED_ERROR, closes=True)
        try:
            return await self._handle_request(path.removeprefix("/"), body)
        except JobFailedError as failed:
            raise _HttpError(422, failed.field, failed.sentence) from failed
        except JobCancelledError as cancelled:
            raise _HttpError(409, "cancelled", CANCELLED_ERROR) from cancelled
        except _HttpError:
            raise
        except Exception as error:  # the details are shown only on the console
            traceback.print_exception(error, file=sys.stderr)
            raise _HttpError(500, "server", INTERNAL_ERROR) from error

    async def _handle_request(self, path: str, body: bytes) -> bytes:
        if not self._metadata:
            raise _HttpError(503, "server", LOADING_ERROR)
        if path == "model":
            return encode_response_body(self._metadata)
        if path in JOB_REQUESTS:
            return await self._jobs.start(path, _parse_request(body, JOB_REQUESTS[path]))
        if path in IMMEDIATE_REQUESTS:
            return await self._jobs.fetch_now(path, _parse_request(body, IMMEDIATE_REQUESTS[path]))
        if path == "result":
            request = _parse_request(body, JobResultRequest)
            return await self._jobs.result(request["job"], request["wait"])
        if path == "cancel":
            self._jobs.cancel(_parse_request(body, CancelJobRequest)["job"])
            return encode_response_body({})
        raise _HttpError(404, "server", UNKNOWN_PATH_ERROR)


def _bind_private_socket(path: Path) -> socket.socket:
    """Return a Unix socket with permissions for the owner only, bound to a path."""
    listener = socket.socket(socket.AF_UNIX)
    earlier = os.umask(0o177)  # from the beginning, not only after a change of the permissions
    try:
        if _is_abandoned_socket(path):
            path.unlink()
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(earlier)
    return listener


def _is_abandoned_socket(path: Path) -> bool:
    """Return whether a path is a socket on which no process listens."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # otherwise, connecting would wait if the queue is full
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except BlockingIOError:
            return False
    return False


def _raise_open_file_limit() -> None:
    """Raise the limit on open files to what the connections require, if the system allows it."""
    try:
        import resource  # Windows has no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _parse_request(body: bytes, kind: type[msgspec.Struct]) -> Any:
    """Decode and validate the JSON of a request, and return it as plain values."""
    try:
        return msgspec.to_builtins(msgspec.json.decode(body, type=kind))
    except (ValueError, RecursionError) as error:  # invalid JSON, types or UTF-8
        why = str(error).splitlines()[0][:200]
        raise _HttpError(400, "server", MALFORMED_REQUEST_ERROR.format(why=why)) from error
