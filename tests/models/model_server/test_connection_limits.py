"""The server's limits on durations and on the number of connections, without a model."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.architecture.project_graph import ROOT
from tests.support.hostile_peer import HostilePeer
from tests.support.served_models import TOKEN
from visualizer.errors import InputError
from visualizer.models.model_client.server_client import ModelServerClient
from visualizer.models.model_protocol.responses import deflate, encode_response_body
from visualizer.models.model_protocol.server_address import HAS_UNIX_SOCKETS
from visualizer.models.model_server import http_server, job_queue
from visualizer.models.model_server.http_server import (
    INTERNAL_ERROR,
    LOADING_ERROR,
    MAX_UNAUTHENTICATED,
    ModelServer,
)
from visualizer.models.model_server.job_queue import (
    MAX_JOBS,
    MAX_READS,
    SERVER_BUSY_ERROR,
    JobQueue,
)
from visualizer.models.model_server.rank_processes import (
    JobCancelledError,
    JobResult,
    RankProcesses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHORT_S, LONG_S = 0.2, 60.0
CLIENTS, FLOODS, FLOOD_S = 20, 3, "8"
MANY = 200
BLOCKS = {"run": 1, "stage": "weights", "place": [0], "rows": [0], "columns": [0, 1]}


class HeldProcesses(RankProcesses):
    """Stand-in for processes: requests end only when the test releases or cancels them."""

    def __init__(self) -> None:
        self.asked: dict[int, asyncio.Future[JobResult]] = {}

    async def ask(self, number: int, *asked: Any, **told: Any) -> JobResult:
        self.asked[number] = asyncio.get_running_loop().create_future()
        return await self.asked[number]

    def cancel(self, number: int) -> None:
        if not self.asked[number].done():
            self.asked[number].set_exception(JobCancelledError())

    def let(self, body: bytes) -> None:
        # A copy, because the server may send more requests in the meantime.
        for future in [*self.asked.values()]:
            if not future.done():
                future.get_loop().call_soon_threadsafe(future.set_result, JobResult(body))


class FailingJobs(JobQueue):
    """Jobs that fail with an unexpected error."""

    async def start(self, says: str, asked: Any) -> bytes:
        raise KeyError("/home/somebody/a secret")


@contextmanager
def listening(jobs: JobQueue, *, is_loaded: bool = True, path: Path | None = None) -> Iterator[int]:
    """Run the server on a thread, and yield its port; 0 if it listens on the socket of a path."""
    begun: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = SimpleQueue()

    async def listen() -> None:
        stopped = asyncio.Event()
        server = ModelServer(jobs, TOKEN)
        listener = await (server.listen_on_socket(path) if path else server.listen("127.0.0.1", 0))
        server.start_responding({"name": "a"} if is_loaded else {})
        port = 0 if path else listener.sockets[0].getsockname()[1]
        begun.put((asyncio.get_running_loop(), stopped, port))
        await stopped.wait()
        listener.close()

    thread = Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    loop, stopped, port = begun.get()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


@pytest.fixture
def held() -> HeldProcesses:
    return HeldProcesses()


@pytest.fixture
def port(held: HeldProcesses) -> Iterator[int]:
    with listening(JobQueue(held)) as found:
        yield found


def until_asked(held: HeldProcesses, port: int, count: int = 1) -> None:
    """Wait until the processes have received a number of requests; other requests still succeed."""
    with HostilePeer(port) as other:
        while len(held.asked) < count:
            assert other.ask("/model", {}).status == 200


def test_many_connections_do_not_displace_a_client_that_is_about_to_sign(port: int) -> None:
    with ExitStack() as stack, HostilePeer(port) as client, HostilePeer(port) as other:
        client.greet()
        for _ in range(MANY):
            stack.enter_context(HostilePeer(port))
        assert other.ask("/model", {}).status == 200, "the newest connection"
        assert client.ask("/model", {}).status == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse a connection at once")
def test_a_socket_with_a_full_queue_is_in_use(held: HeldProcesses, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as clients:
        busy.bind(str(tmp_path / "busy.sock"))
        busy.listen(0)
        for _ in range(4):  # a further connection would have to wait
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(str(tmp_path / "busy.sock"))
        with pytest.raises(OSError, match="in use"):
            asyncio.run(ModelServer(JobQueue(held), TOKEN).listen_on_socket(tmp_path / "busy.sock"))


@pytest.mark.skipif(not HAS_UNIX_SOCKETS, reason="the system has no Unix sockets")
def test_a_unix_socket_is_for_its_owner_and_replaces_only_an_abandoned_one(
    held: HeldProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "model.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with listening(JobQueue(held), path=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        client = ModelServerClient(str(path), TOKEN)
        assert client.fetch_response("/model", {})[0] == {"name": "a"}
        with pytest.raises(OSError, match="in use"):
            asyncio.run(ModelServer(JobQueue(held), TOKEN).listen_on_socket(path))
        with pytest.raises(InputError, match="token"):
            ModelServerClient(str(path), TOKEN[::-1]).fetch_response("/model", {})
    path.unlink(missing_ok=True)
    path.write_text("a file")
    with pytest.raises(OSError, match="in use"):
        asyncio.run(ModelServer(JobQueue(held), TOKEN).listen_on_socket(path))
    assert path.read_text() == "a file"


def test_the_oldest_unauthenticated_connections_are_closed(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_UNAUTHENTICATED", 4)
    with ExitStack() as stack, HostilePeer(port) as known:
        assert known.ask("/model", {}).status == 200
        silent = [stack.enter_context(HostilePeer(port)) for _ in range(10)]
        assert [each.answer().status for each in silent[:6]] == [0] * 6
        assert silent[-1].ask("/model", {}).status == 200
        assert known.ask("/model", {}).status == 200


@pytest.mark.slow
def test_a_flood_of_unauthenticated_connections_blocks_no_client(port: int) -> None:
    """Each flood runs in its own process at full speed for a limited time."""
    command = [sys.executable, "-m", "tests.support.connection_flood", str(port), FLOOD_S]
    with HostilePeer(port) as known:
        # Before the floods, because a connection is only kept once it has signed a request.
        assert known.ask("/model", {}).status == 200
        floods = [
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
            for _ in range(FLOODS)
        ]
        try:
            for _ in range(CLIENTS):
                connection = ModelServerClient(f"127.0.0.1:{port}", TOKEN)
                assert connection.fetch_response("/model", {})[0] == {"name": "a"}
                assert known.ask("/model", {}).status == 200
        finally:
            made = [int(flood.communicate(timeout=LONG_S)[0]) for flood in floods]
    assert sum(made) > MAX_UNAUTHENTICATED
    # The server is still closing the remaining connections of the floods.
    with HostilePeer(port) as other:
        assert all(other.ask("/model", {}).status == 200 for _ in range(MANY))


def test_a_client_can_request_only_one_greeting(port: int) -> None:
    with HostilePeer(port) as peer:
        peer.greet()
        peer.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert peer.answer().status == 0


def test_the_greeting_does_not_extend_the_time_to_sign(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as peer:
        peer.greet()
        assert peer.answer().status == 0
        assert peer.signer


def send_until_closed(peer: HostilePeer, other: HostilePeer) -> None:
    """Send single bytes until the connection is closed; requests on another one still succeed."""
    while True:
        peer.socket.sendall(b"x")
        assert other.ask("/model", {}).status == 200


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nhost: a\r\n", b"\r\n"])
def test_an_incomplete_header_times_out(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as peer:
        peer.send(sent)
        assert peer.answer().status == 0


def test_a_header_sent_byte_by_byte_times_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEADER_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as peer, HostilePeer(port) as other, pytest.raises(ConnectionError):
        send_until_closed(peer, other)


def test_an_authenticated_connection_may_be_idle_but_not_slow(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as silent, HostilePeer(port) as slow:
        for peer in (silent, slow):
            assert peer.ask("/model", {}).status == 200
        slow.send(b"POST ")
        assert slow.answer().status == 0
        assert silent.ask("/model", {}).status == 200, "it was idle for the same time"


def test_an_incomplete_body_times_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as peer:
        peer.send(peer.request("/model", b"{}")[:-1])
        assert peer.answer().status == 0


def test_a_response_that_is_not_read_times_out(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SEND_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as deaf, HostilePeer(port) as other:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.send(deaf.request("/stage", b'{"run": 1, "stages": ["weights"]}'))
        until_asked(held, port)
        held.let(bytes(2**25))
        with pytest.raises(ConnectionError):
            send_until_closed(deaf, other)


READ = b'{"source": {"folder": "", "name": "", "fingerprint": ""}, "text": "a", "called": 7}'
STAGE = b'{"run": 7, "stages": ["weights"], "place": [0, 1]}'


def sent_ahead(held: HeldProcesses, port: int, peers: tuple[HostilePeer, HostilePeer]) -> None:
    """Send a text on one connection, and request values of its run on another connection."""
    reads, asks = peers
    reads.send(reads.request("/read", READ))
    until_asked(held, port)
    with HostilePeer(port) as other:
        asks.send(asks.request("/stage", STAGE))
        assert other.ask("/model", {}).status == 200


def test_values_of_a_text_are_sent_once_it_has_been_processed(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "START_TIMEOUT_S", LONG_S)
    with HostilePeer(port) as reads, HostilePeer(port) as asks:
        sent_ahead(held, port, (reads, asks))
        assert len(held.asked) == 1, "values are requested only after the text"
        held.let(encode_response_body({"number": 1}))
        assert reads.answer().values == {"number": 1}
        until_asked(held, port, 2)
        held.let(encode_response_body({"head": 1}))
        assert asks.answer().values == {"head": 1}


def test_requests_that_wait_for_a_text_block_no_other_request(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "MAX_READS", 1)
    with HostilePeer(port) as reads, HostilePeer(port) as asks, HostilePeer(port) as another:
        sent_ahead(held, port, (reads, asks))
        another.send(another.request("/stage", b'{"run": 1, "stages": ["weights"]}'))
        until_asked(held, port, 2)
        held.let(encode_response_body({"head": 0}))
        assert another.answer().values == {"head": 0}


def test_requests_for_values_of_a_delayed_text_are_rejected(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "READ_TIMEOUT_S", SHORT_S)
    with HostilePeer(port) as reads, HostilePeer(port) as asks:
        sent_ahead(held, port, (reads, asks))
        found = asks.answer()
        assert (found.status, found.sentence) == (422, job_queue.TEXT_PENDING_ERROR)


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ((), bytes(9000), bytes(9000)),
        (("accept-encoding: deflate",), bytes(9000), deflate(bytes(9000))),
        (("accept-encoding: identity",), bytes(9000), bytes(9000)),
        (("accept-encoding: deflate",), b"a", b"a"),
    ],
    ids=["not asked for", "asked for", "refused", "too short"],
)
def test_a_response_is_compressed_on_request_if_that_makes_it_smaller(
    held: HeldProcesses, port: int, headers: tuple[str, ...], body: bytes, expected: bytes
) -> None:
    with HostilePeer(port) as peer:
        peer.send(peer.request("/stage", b'{"run": 1, "stages": ["weights"]}', *headers))
        until_asked(held, port)
        held.let(body)
        assert peer.answer().body == expected


def test_the_number_of_concurrent_immediate_requests_is_limited(
    held: HeldProcesses, port: int
) -> None:
    assert MAX_READS >= http_server.MAX_AUTHENTICATED
    waiting: list[HostilePeer] = []
    for _ in range(2 * MAX_READS):
        waiting.append(peer := HostilePeer(port))
        peer.send(peer.request("/blocks", json.dumps(BLOCKS).encode()))
    with HostilePeer(port) as other:
        while other.ask("/blocks", BLOCKS).sentence != SERVER_BUSY_ERROR:
            pass
    assert len(held.asked) == MAX_READS
    held.let(encode_response_body({}))
    for peer in waiting:
        peer.close()


def test_abandoned_jobs_are_cancelled_by_a_new_job(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "START_TIMEOUT_S", SHORT_S / 10)
    with HostilePeer(port) as peer:
        begun = [peer.ask("/names", {"numbers": [1]}) for _ in range(MAX_JOBS + 1)]
        assert [each.status for each in begun] == [200] * MAX_JOBS + [422]
        monkeypatch.setattr(job_queue, "ABANDON_TIMEOUT_S", 0.0)
        assert peer.ask("/names", {"numbers": [1]}).status == 200, (
            "the earlier jobs are abandoned now"
        )
        assert peer.ask("/result", {"job": begun[0].values["job"], "wait": 0}).status == 409


def test_abandoned_jobs_are_cancelled_by_a_request_for_a_result(
    held: HeldProcesses, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "START_TIMEOUT_S", SHORT_S / 10)
    with HostilePeer(port) as peer:
        left, waits = (peer.ask("/names", {"numbers": [1]}).values["job"] for _ in range(2))
        monkeypatch.setattr(job_queue, "ABANDON_TIMEOUT_S", 0.0)
        assert peer.ask("/result", {"job": waits, "wait": 0}).values["working"]
        assert peer.ask("/result", {"job": left, "wait": 0}).status == 409


def test_requests_while_the_model_is_loading_are_rejected(held: HeldProcesses) -> None:
    with listening(JobQueue(held), is_loaded=False) as port, HostilePeer(port) as peer:
        found = peer.ask("/model", {})
        assert (found.status, found.sentence) == (503, LOADING_ERROR)


def test_an_internal_error_is_reported_without_its_details(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with listening(FailingJobs(HeldProcesses())) as port, HostilePeer(port) as peer:
        found = peer.ask("/names", {"numbers": [1]})
        assert (found.status, found.sentence) == (500, INTERNAL_ERROR)
        assert peer.ask("/model", {}).status == 200
    assert "a secret" in capsys.readouterr().err
