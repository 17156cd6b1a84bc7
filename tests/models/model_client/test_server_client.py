"""Handling of responses that are truncated, compressed, or sent by an unrelated program."""

from __future__ import annotations

import gc
import json
import threading
import weakref
import zlib
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.free_port import free_port
from visualizer.errors import InputError
from visualizer.models.model_client import server_client
from visualizer.models.model_client.server_client import ModelServerClient
from visualizer.models.model_protocol.responses import DEFLATE_CODING, deflate, encode_response_body

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 10.0
GREETING = json.dumps({"program": "attention-visualizer", "nonce": "a"}).encode()
FACTS = encode_response_body({"name": "tiny"})


class Scripted(ThreadingHTTPServer):
    """Answers requests with the given bodies, or with the beginning of each body.

    Parameters
    ----------
    script : list of (bytes, int)
        The bodies, and the number of bytes of each that are sent.
    """

    def __init__(self, script: list[tuple[bytes, int]]) -> None:
        self.script, self.was_closed = script, Event()
        self.coding = ""
        """Content coding that the server declares for all bodies."""
        self.failures: set[bytes] = set()
        """Bodies that are sent with an error status."""
        self.asked: list[str] = []
        """Paths of the signed requests."""
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body, sent = self.server.script.pop(0)
        self.send_response(500 if body in self.server.failures else 200)
        self.send_header("Content-Length", str(len(body)))
        if self.server.coding:
            self.send_header("Content-Encoding", self.server.coding)
        self.end_headers()
        self.wfile.write(body[:sent])
        self.close_connection = sent < len(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(self.path)
        self.do_GET()

    def finish(self) -> None:
        super().finish()
        self.server.was_closed.set()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def scripted(*script: tuple[bytes, int]) -> Iterator[Scripted]:
    with Scripted([*script]) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_a_request_with_a_truncated_response_is_sent_again() -> None:
    short = (FACTS, len(FACTS) // 2)
    whole = (FACTS, len(FACTS))
    greeting = (GREETING, len(GREETING))
    with scripted(greeting, whole, short, greeting, whole) as server:
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        for _ in range(2):
            assert connection.fetch_response("/model", {})[0] == {"name": "tiny"}
        assert server.script == []


@pytest.mark.parametrize("is_own_late", [True, False], ids=["another's", "its own"])
def test_a_request_uses_the_first_connection_that_is_ready(
    is_own_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, own, late = Event(), Event(), Event()

    class Made(HTTPConnection):
        """The connection opened in advance is the first one, and that of the request the second."""

        def __init__(self, *where: Any, **more: Any) -> None:
            is_own = ahead.is_set()
            (own if is_own else ahead).set()
            assert own.wait(PATIENCE_S)
            if is_own == is_own_late:
                assert late.wait(PATIENCE_S)
            super().__init__(*where, **more)

    monkeypatch.setattr(server_client, "HTTPConnection", Made)
    greeting = (GREETING, len(GREETING))
    with scripted(greeting, (FACTS, len(FACTS)), greeting) as server:
        asks = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        asks.open_connections(1)
        assert ahead.wait(PATIENCE_S)
        assert asks.fetch_response("/model", {})[0] == {"name": "tiny"}
        assert len(server.script) == 1, "the other connection is still being opened"
        late.set()


def test_a_failed_request_does_not_wait_for_a_pending_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, has_begun, has_ended = Event(), Event(), Event()

    class Made(HTTPConnection):
        """Opening the first connection takes long, and all other connections are refused."""

        def __init__(self, *where: Any, **more: Any) -> None:
            if not has_begun.is_set():
                has_begun.set()
                late.wait(PATIENCE_S)
                has_ended.set()
            super().__init__(*where, **more)

    monkeypatch.setattr(server_client, "HTTPConnection", Made)
    asks = ModelServerClient(f"127.0.0.1:{free_port()}", "token")
    asks.open_connections(1)
    assert has_begun.wait(PATIENCE_S)
    with pytest.raises(InputError, match="cannot be reached"):
        asks.fetch_response("/model", {})
    assert not has_ended.is_set()
    late.set()


def test_an_error_does_not_keep_its_connection_alive() -> None:
    asks = ModelServerClient(f"127.0.0.1:{free_port()}", "token")
    kept, others = weakref.ref(asks), {*threading.enumerate()}
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(InputError, match="cannot be reached"):
            asks.fetch_response("/model", {})
        for thread in {*threading.enumerate()} - others:
            thread.join(PATIENCE_S)
        del asks
        assert kept() is None
    finally:
        gc.enable()


def test_a_truncated_greeting_is_not_reported_as_another_program() -> None:
    with scripted((GREETING, 5)) as server:
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        with pytest.raises(InputError, match="cannot be reached: the response is incomplete"):
            connection.fetch_response("/model", {})


def test_the_connection_to_another_program_is_closed() -> None:
    said = b"<html>Welcome</html>"
    with scripted((said, len(said))) as server:
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        with pytest.raises(InputError, match="model server") as caught:
            connection.fetch_response("/model", {})
        # While the error, which refers to the connection, is kept.
        assert server.was_closed.wait(PATIENCE_S)
        assert caught.value.field == "server"


def test_a_compressed_response_is_decompressed() -> None:
    long = encode_response_body({}, {"x": np.zeros(1000)})
    bodies = [zlib.compress(GREETING), deflate(long) or b""]
    with scripted(*[(body, len(body)) for body in bodies]) as server:
        server.coding = DEFLATE_CODING
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        assert connection.fetch_response("/model", {})[1]["x"].tolist() == [0.0] * 1000


def test_a_response_declared_as_compressed_but_plain_is_rejected() -> None:
    greeting = zlib.compress(GREETING)
    with scripted((greeting, len(greeting)), (FACTS, len(FACTS))) as server:
        server.coding = DEFLATE_CODING
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        with pytest.raises(InputError, match="Invalid response"):
            connection.fetch_response("/model", {})
        assert server.was_closed.wait(PATIENCE_S)


def test_a_greeting_declared_as_compressed_but_plain_is_rejected() -> None:
    with scripted((GREETING, len(GREETING))) as server:
        server.coding = DEFLATE_CODING
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        with pytest.raises(InputError, match="model server"):
            connection.fetch_response("/model", {})


def test_a_job_abandoned_by_the_server_is_requested_once_more() -> None:
    """For example, the machine was suspended before it requested the result."""
    given_up = json.dumps({"field": "cancelled", "sentence": ""}).encode()
    begun, done = encode_response_body({"job": 7}), encode_response_body({"found": 1})
    bodies = (GREETING, begun, given_up, begun, done, *(begun, given_up) * 2)
    with scripted(*((body, len(body)) for body in bodies)) as server:
        server.failures = {given_up}
        connection = ModelServerClient(f"127.0.0.1:{server.server_port}", "token")
        assert connection.run_job("/read", {})[0] == {"found": 1}
        assert server.asked == ["/read", "/result", "/read", "/result"]
        with pytest.raises(InputError, match="cancelled the job") as caught:
            connection.run_job("/read", {})
        assert caught.value.field == "server"
        assert server.script == []


def test_a_request_that_is_too_large_is_not_sent() -> None:
    with scripted((GREETING, 999), (FACTS, 999), (FACTS, 999)) as server:
        made = ModelServerClient(f"127.0.0.1:{server.server_port}", "a")
        assert made.fetch_response("/model", {})[0] == {"name": "tiny"}
        with pytest.raises(InputError, match=r"9\.0 MiB; the limit is 8\.0 MiB") as refused:
            made.fetch_response("/read", {"text": "x" * (9 * 2**20)})
        assert refused.value.field == "text"
        assert made.fetch_response("/model", {})[0] == {"name": "tiny"}, (
            "the connection is still usable"
        )
        assert server.script == []
