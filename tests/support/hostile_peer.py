"""A hostile client of a model server, which sends any data over its own socket."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tests.support.served_models import TOKEN
from visualizer.models.model_protocol.authentication import SIGNATURE_HEADER, RequestSigner
from visualizer.models.model_protocol.responses import decode_response_body

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_S = 60.0
PLACES = (Path.home(), Path(gettempdir()), Path(sys.prefix), Path(__file__).parents[2])
OWN_PATHS = [os.fsencode(place) for place in PLACES if len(place.parts) > 1]
SECRETS = (b"Traceback", b"site-packages", b".py", b"rank_main", *OWN_PATHS)
"""Data that no response may contain: code, and paths on the server."""


class Answered(Struct, frozen=True):
    """A response; the status is 0 if the connection has been closed."""

    status: int
    body: bytes

    @property
    def sentence(self) -> str:
        """The error message; empty if there is none."""
        return "" if self.status in (0, 200) else str(json.loads(self.body)["sentence"])

    @property
    def values(self) -> dict[str, Any]:
        """The values of a successful response."""
        assert self.status == 200, self
        return decode_response_body(self.body)[0]

    @property
    def is_about_work(self) -> bool:
        """Whether the response contains the progress or a partial result of a job."""
        return self.status == 200 and bool({"working", "is_part"} & self.values.keys())


class HostilePeer:
    """A connection to a server.

    Parameters
    ----------
    token : str
        Key that signs the requests.
    """

    def __init__(self, port: int, token: str = TOKEN) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), LONGEST_S)
        self._file = self.socket.makefile("rb")
        self._token = token
        self.signer: RequestSigner | None = None

    def __enter__(self) -> HostilePeer:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()

    def greet(self) -> str:
        """Request the nonce of the connection; all later requests are signed with it."""
        self.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        nonce = str(json.loads(self.answer().body)["nonce"])
        self.signer = RequestSigner(self._token, nonce)
        return nonce

    def send(self, data: bytes) -> None:
        """Send bytes, as far as the server accepts them."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def request(self, path: str, body: bytes, *headers: str, signed: str | None = None) -> bytes:
        """Return a request, signed correctly or with the given signature."""
        if signed is None:
            if self.signer is None:
                self.greet()
            assert self.signer
            signed = self.signer.sign_request(path, body)
        lines = [f"POST {path} HTTP/1.1", "host: a", f"{SIGNATURE_HEADER}: {signed}", *headers]
        if not any("transfer-encoding" in line or "content-length" in line for line in headers):
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def ask(self, path: str, asked: object) -> Answered:
        """Send a signed request with a JSON or bytes body, and return the response."""
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        self.send(self.request(path, body))
        return self.answer()

    def job(self, path: str, asked: object) -> Answered:
        """Run a job, and return its result."""
        begun = self.ask(path, asked)
        # Otherwise, this is already the result.
        is_later = begun.status == 200 and "job" in begun.values
        return self.result(begun.values["job"]) if is_later else begun

    def result(self, number: int) -> Answered:
        """Wait for the result of a job."""
        while (found := self.ask("/result", {"job": number, "wait": 20})).is_about_work:
            pass
        return found

    def answer(self) -> Answered:
        """Read one response."""
        try:
            line, length = self._file.readline(), 0
            while (header := self._file.readline()) not in (b"\r\n", b""):
                if header.startswith(b"content-length: "):
                    length = int(header[16:])
            body = self._file.read(length)
        except ConnectionError:
            return Answered(0, b"")
        if not line:
            return Answered(0, b"")
        status = int(line.split()[1])
        assert status == 200 or not [said for said in SECRETS if said in body], body
        return Answered(status, body)

    def answers_to_the_end(self) -> Iterator[Answered]:
        """Send nothing more, and yield all responses until the connection is closed."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        while (found := self.answer()).status:
            yield found
