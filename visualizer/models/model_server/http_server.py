"""The HTTP server in front of a model: JSON in, safetensors out, every request signed.

What is not signed is answered before its body is read; heads, bodies, connections and times are
bounded, and a connection that has proved nothing makes way for others. A body states its length and
comes in one piece: chunks of a byte each would take much more memory than their bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import h11
import msgspec
from msgspec import Struct

from visualizer.models.model_protocol.answer_body import DEFLATE, answer_body, deflated
from visualizer.models.model_protocol.request_signature import HEADER, RequestGuard
from visualizer.models.model_protocol.requests import (
    AT_ONCE,
    JOBS,
    MAX_BODY_BYTES,
    CancelRequest,
    ResultRequest,
    too_large_message,
)
from visualizer.models.model_server.rank_processes import JobCancelledError, JobFailedError
from visualizer.version import __version__

if TYPE_CHECKING:
    from visualizer.models.model_server.served_jobs import ServedJobs

MAX_HEADER_BYTES = 2**14
"""Bytes of the head of a request."""
PIECE = 2**16
HEAD_S, BODY_S, IDLE_S = 10.0, 30.0, 900.0
"""How long a head and a body may take, and a connection that has proved itself may be silent."""
SEND_S = 60.0
"""How long each piece of an answer may take to be taken."""
SENT_PIECE = 2**20
"""Bytes of such a piece."""
MAX_UNAUTHENTICATED = 512
"""Connections without a signed request; of more the oldest are closed.

As many may be made while one signs its first request, without keeping it out.
"""
MAX_AUTHENTICATED = 32
"""Connections with a signed request, which those without one cannot displace."""
FILES = 2 * (MAX_UNAUTHENTICATED + MAX_AUTHENTICATED)
"""Files that a process should be able to have open for as many connections."""
UNKNOWN = "The token is another one, or the request was sent before."
LENGTH_REQUIRED = "The request does not state its length."
FAILED = "The server has failed at this. Its console says where."
MALFORMED = "The request is malformed: {why}."
LOADING = "The server is still loading its model. Try again in a moment."
UNKNOWN_PATH = "There is no such request."


class _Refusal(Exception):  # noqa: N818 - an answer, and no fault of this program
    """An answer other than 200."""

    def __init__(self, status: int, field: str, sentence: str, *, ends: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.field, self.sentence, self.ends = status, field, sentence, ends


class _Connection:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self.reader, self.writer = reader, writer
        self.guard = RequestGuard(token)
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self.is_known = self.is_greeted = False
        self.ends_at = asyncio.get_running_loop().time() + HEAD_S
        """When it is closed unless it has sent a signed request."""

    async def next_event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(PIECE))
        return event

    @property
    def head_s(self) -> float:
        """How long the head of the next request may take."""
        left = self.ends_at - asyncio.get_running_loop().time()
        return HEAD_S if self.is_known else max(0.0, left)

    async def wait_for_data(self) -> None:
        """Wait until the next request begins, unless it has."""
        if not self.http.trailing_data[0]:
            self.http.receive_data(await self.reader.read(PIECE))

    async def body(self, headers: dict[bytes, bytes], most: int) -> bytes:
        """Read the body of the request, of so many bytes at most.

        Raises
        ------
        _Refusal
            When it is too long, or does not state its length.
        """
        if b"transfer-encoding" in headers:
            raise _Refusal(411, "server", LENGTH_REQUIRED, ends=True)
        if (size := int(headers.get(b"content-length", b"0"))) > most:
            raise _Refusal(413, "server", too_large_message(size), ends=True)
        whole = bytearray()
        while not isinstance(event := await self.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ConnectionError
            whole += event.data
        return bytes(whole)

    async def send(
        self, status: int, kind: str, body: bytes, *, ends: bool, may_deflate: bool
    ) -> None:
        headers = [("content-type", kind)]
        if may_deflate and (packed := deflated(body)):
            body = packed
            headers.append(("content-encoding", DEFLATE))
        headers.append(("content-length", str(len(body))))
        if ends:
            headers.append(("connection", "close"))
        data = self.http.send(h11.Response(status_code=status, headers=headers)) or b""
        self.writer.write(data)
        # In pieces: what waits to be sent is not copied as a whole.
        for at in range(0, len(body), SENT_PIECE):
            piece = body[at : at + SENT_PIECE]
            self.writer.write(self.http.send(h11.Data(data=piece)) or b"")
            await asyncio.wait_for(self.writer.drain(), SEND_S)
        self.writer.write(self.http.send(h11.EndOfMessage()) or b"")
        await asyncio.wait_for(self.writer.drain(), SEND_S)


class ServerAddress(Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int


class ModelServer:
    """Answers requests about a model.

    Parameters
    ----------
    token : str
        What requests are signed with.
    """

    def __init__(self, jobs: ServedJobs, token: str) -> None:
        self._jobs, self._token = jobs, token
        self._facts: dict[str, Any] = {}
        self._open: dict[bool, dict[_Connection, None]] = {False: {}, True: {}}
        """The connections, the oldest first, by whether one has sent a signed request."""

    async def listen(self, address: ServerAddress) -> asyncio.Server:
        """Begin to listen; until the model is loaded, whoever asks is told so.

        Raises
        ------
        OSError
            When the address cannot be used.
        """
        _allow_open_files()
        # A small limit, as whoever connects without a token may fill the buffers.
        return await asyncio.start_server(
            self._connected, address.host, address.port, limit=MAX_HEADER_BYTES
        )

    def begin(self, facts: dict[str, Any]) -> None:
        """Begin to answer, as the model is loaded.

        Parameters
        ----------
        facts : dict
            What is told of the model.
        """
        self._facts = facts

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._token)
        self._admit(connection)
        try:
            while await self._answer_one(connection):
                pass
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), SEND_S)
        except (TimeoutError, OSError, h11.RemoteProtocolError, h11.LocalProtocolError):
            pass  # it has gone, is too slow, or speaks something else
        except asyncio.CancelledError:
            pass  # the server ends; Python before 3.12 would show this on the console
        finally:
            self._open[connection.is_known].pop(connection, None)
            writer.transport.abort()  # what is not taken would be kept until it is

    def _admit(self, connection: _Connection) -> None:
        """Count a connection among those of its kind, and close the oldest of too many."""
        alike = self._open[connection.is_known]
        alike[connection] = None
        while len(alike) > (MAX_AUTHENTICATED if connection.is_known else MAX_UNAUTHENTICATED):
            oldest = next(iter(alike))
            del alike[oldest]
            oldest.writer.transport.abort()

    def _recognize(self, connection: _Connection) -> None:
        """Count a connection among those with a signed request, from its first one on."""
        if not connection.is_known:
            self._open[False].pop(connection, None)
            connection.is_known = True
            self._admit(connection)

    async def _answer_one(self, connection: _Connection) -> bool:
        """Answer one request; return whether another one may follow."""
        if connection.is_known:
            await asyncio.wait_for(connection.wait_for_data(), IDLE_S)
        event = await asyncio.wait_for(connection.next_event(), connection.head_s)
        if not isinstance(event, h11.Request):
            return False
        ends = False
        try:
            status, kind, body = 200, "application/octet-stream", b""
            path = event.target.decode("ascii", "replace")
            if event.method == b"GET" and path == "/":
                if connection.is_greeted:  # what has no token cannot keep the server at work
                    return False
                connection.is_greeted = True
                await asyncio.wait_for(connection.body(dict(event.headers), 0), BODY_S)
                kind, body = "application/json", self._greeting(connection)
            else:
                body = await self._signed(connection, event, path)
        except _Refusal as refused:
            status, kind, ends = refused.status, "application/json", refused.ends
            body = json.dumps({"field": refused.field, "sentence": refused.sentence}).encode()
        accepted = dict(event.headers).get(b"accept-encoding", b"")
        may_deflate = accepted == DEFLATE.encode()
        await connection.send(status, kind, body, ends=ends, may_deflate=may_deflate)
        if ends or connection.http.our_state is h11.MUST_CLOSE:
            return False
        connection.http.start_next_cycle()
        return True

    def _greeting(self, connection: _Connection) -> bytes:
        greeting = {"program": "attention-visualizer", "version": __version__}
        return json.dumps({**greeting, "nonce": connection.guard.nonce}).encode()

    async def _signed(self, connection: _Connection, event: h11.Request, path: str) -> bytes:
        """Answer a request that has to be signed."""
        headers = dict(event.headers)
        signature = headers.get(HEADER.encode(), b"").decode("ascii", "replace")
        digest = connection.guard.digest_of(signature, path)
        if event.method != b"POST" or digest is None:
            raise _Refusal(401, "token", UNKNOWN, ends=True)
        self._recognize(connection)
        body = await asyncio.wait_for(connection.body(headers, MAX_BODY_BYTES), BODY_S)
        if sha256(body).hexdigest() != digest:
            raise _Refusal(401, "token", UNKNOWN, ends=True)
        try:
            return await self._done(path.removeprefix("/"), body)
        except JobFailedError as failed:
            raise _Refusal(422, failed.field, failed.sentence) from failed
        except JobCancelledError as cancelled:
            raise _Refusal(409, "cancelled", "It was given up.") from cancelled
        except _Refusal:
            raise
        except Exception as error:  # the console is told, and who asked no more than that
            traceback.print_exception(error, file=sys.stderr)
            raise _Refusal(500, "server", FAILED) from error

    async def _done(self, says: str, body: bytes) -> bytes:
        if not self._facts:
            raise _Refusal(503, "server", LOADING)
        if says == "model":
            return answer_body(self._facts)
        if says in JOBS:
            return await self._jobs.begun(says, _read(body, JOBS[says]))
        if says in AT_ONCE:
            return await self._jobs.at_once(says, _read(body, AT_ONCE[says]))
        if says == "result":
            asked = _read(body, ResultRequest)
            return await self._jobs.result(asked["job"], asked["wait"])
        if says == "cancel":
            self._jobs.cancel(_read(body, CancelRequest)["job"])
            return answer_body({})
        raise _Refusal(404, "server", UNKNOWN_PATH)


def _allow_open_files() -> None:
    """Raise the limit of open files as far as the connections need it and the system allows."""
    try:
        import resource  # Windows has no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _read(body: bytes, kind: type[Struct]) -> Any:
    """Read the JSON of a request, within its limits, as plain values."""
    try:
        return msgspec.to_builtins(msgspec.json.decode(body, type=kind))
    except (ValueError, RecursionError) as error:  # of JSON, of its types, of its UTF-8
        why = str(error).splitlines()[0][:200]
        raise _Refusal(400, "server", MALFORMED.format(why=why)) from error
