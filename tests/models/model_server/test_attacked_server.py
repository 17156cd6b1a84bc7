"""A server under attack responds correctly, rejects invalid requests, and stays small."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from tests.support.hostile_peer import Answered, HostilePeer
from tests.support.hostile_requests import PATHS, VALID, broken_http, spoilt_body
from tests.support.served_models import served
from tests.support.tiny_models import VOCABULARY, save_tiny_model
from visualizer.attention.drawn_tiles import FIRST_COLUMNS, FIRST_ROWS
from visualizer.models.model_protocol.authentication import RequestSigner
from visualizer.models.model_protocol.requests import (
    JOB_REQUESTS,
    MAX_BODY_BYTES,
    MAX_ROWS,
    MAX_TEXT_LENGTH,
)
from visualizer.models.model_protocol.responses import decode_response_body
from visualizer.models.model_server.http_server import (
    CANCELLED_ERROR,
    MAX_AUTHENTICATED,
    MAX_UNAUTHENTICATED,
    UNAUTHORIZED_ERROR,
)
from visualizer.models.model_server.http_server import INTERNAL_ERROR as SERVER_FAILED
from visualizer.models.model_server.job_queue import SERVER_BUSY_ERROR, UNKNOWN_JOB_ERROR
from visualizer.models.model_server.rank_main import INTERNAL_ERROR
from visualizer.models.model_server.served_model import MAX_CACHED_RUNS, RUN_EXPIRED_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.served_models import ServedFolder

pytest.importorskip("accelerate", reason="models are spread with accelerate")
pytestmark = pytest.mark.slow

SIZES = {
    "num_key_value_heads": 4, "num_attention_heads": 8, "num_hidden_layers": 4,
    "max_position_embeddings": 4096, "sliding_window": None,
}  # fmt: skip
TEXT = "the cat sat on a mat"
LONG = " ".join(["the cat sat on a mat ."] * 60)
"""Text whose blocks are requested."""
SOURCE = {"folder": "attention://a", "name": "a", "fingerprint": "0"}
WARM = 400
GROWN = 2**26
"""Maximum growth of a process's memory between warm-up and the end of an attack, in bytes."""
DEAF = 32
KNOWN: tuple[dict[str, Any], ...] = (
    {"layers": [0], "changes": [[0.0]]},
    {"layers": [], "changes": []},
    {"layers": [0, 1, 2, 3], "changes": [[1e300] * 9] * 4},
    {"layers": [0, 1], "changes": [[0.0], [None, 1.0]]},
)
"""Known ablation results whose sizes differ from those of the model."""
ALONE, SPREAD = (), ("--tensor-parallel", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("attacked"), "llama", **SIZES)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Iterator[ServedFolder]:
    with served(folder, *ALONE) as server:
        yield server


@pytest.fixture(scope="module")
def spread(folder: Path) -> Iterator[ServedFolder]:
    with served(folder, *SPREAD) as server:
        yield server


@pytest.fixture(params=["alone", "spread"])
def server(request: pytest.FixtureRequest) -> ServedFolder:
    found: ServedFolder = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def peer(server: ServedFolder) -> Iterator[HostilePeer]:
    with HostilePeer(server.port) as connected:
        yield connected


def said_on_console(server: ServedFolder) -> str:
    """Return what the server and its processes have written to the console since the last call."""
    assert server.process.stderr
    os.set_blocking(server.process.stderr.fileno(), False)
    found = server.process.stderr.buffer.read()  # type: ignore[attr-defined]
    return (found or b"").decode()


def sizes(server: ServedFolder) -> dict[int, int]:
    """Return the memory use in bytes of the server, its ranks and its tokenizer, by process id."""
    whole = psutil.Process(server.process.pid)
    return {each.pid: each.memory_info().rss for each in (whole, *whole.children(recursive=True))}


def assert_right(port: int) -> None:
    """Assert that the model responds correctly to another client."""
    with HostilePeer(port) as peer:
        values = peer.job("/read", {"source": SOURCE, "text": TEXT}).values
        assert values["run"]["tokens"] == ["<s>", *TEXT.split()]
        asked = {"run": values["number"], "question": {"kind": "ablations"}}
        assert peer.job("/answer", asked).values["layers"] == [0, 1, 2, 3]
        assert peer.ask("/stage", {"run": values["number"], "stages": ["weights"]}).status == 200


def read_long(peer: HostilePeer, text: str = LONG) -> dict[str, Any]:
    return peer.job("/read", {"source": SOURCE, "text": text}).values


# --------------------------------------------------------------------------- authorization


def signed_with(peer: HostilePeer, token: str, path: str = "/model", body: bytes = b"{}") -> str:
    return RequestSigner(token, peer.greet()).sign_request(path, body)


def test_a_request_without_a_valid_signature_is_rejected(alone: ServedFolder) -> None:
    def refused(sent: bytes, peer: HostilePeer) -> None:
        peer.send(sent)
        found = peer.answer()
        assert (found.status, found.sentence) == (401, UNAUTHORIZED_ERROR)
        assert peer.answer().status == 0, "the connection is closed"

    def signature(peer: HostilePeer, *of: Any) -> str:
        peer.greet()
        assert peer.signer
        return peer.signer.sign_request(*of)

    port = alone.port
    with HostilePeer(port) as peer:
        refused(
            peer.request("/model", b"{}", signed=signed_with(peer, "another token, as long")), peer
        )
    for wrong in ("", "a", "1:2:3", f"1:{'0' * 64}:{'0' * 64}", "9" * 400):
        with HostilePeer(port) as peer:
            refused(peer.request("/model", b"{}", signed=wrong), peer)
    with HostilePeer(port) as peer:
        refused(peer.request("/cancel", b"{}", signed=signature(peer, "/model", b"{}")), peer)
    with HostilePeer(port) as peer:
        refused(peer.request("/model", b"[]", signed=signature(peer, "/model", b"{}")), peer)
    with HostilePeer(port) as peer:
        signed = peer.request("/model", b"{}").replace(b"POST", b"GET")
        refused(signed, peer)


def test_a_repeated_request_is_rejected(alone: ServedFolder) -> None:
    with HostilePeer(alone.port) as peer, HostilePeer(alone.port) as other:
        first, second = peer.request("/model", b"{}"), peer.request("/model", b"{}")
        for sent, status in ((second, 200), (first, 401)):
            peer.send(sent)
            assert peer.answer().status == status, "an earlier signature is no longer valid"
        other.greet()
        other.send(second)
        assert other.answer().status == 401
    with HostilePeer(alone.port) as peer:
        sent = peer.request("/model", b"{}")
        peer.send(sent * 2)
        assert [found.status for found in peer.answers_to_the_end()] == [200, 401]


# --------------------------------------------------------------------------- malformed requests


def attack_unsigned(server: ServedFolder, chosen: Random, count: int) -> None:
    for _ in range(count):
        with HostilePeer(server.port) as peer:
            peer.send(broken_http(chosen))
            for found in peer.answers_to_the_end():
                is_greeting = found.status == 200 and b'"nonce"' in found.body
                assert is_greeting or found.status in (401, 411, 413), found


def attack_signed(server: ServedFolder, chosen: Random, count: int) -> None:
    """Send signed requests over several connections, and fetch the result of every job."""
    with ExitStack() as stack:
        peers = [stack.enter_context(HostilePeer(server.port)) for _ in range(4)]
        run = 0
        for at in range(count):
            peer = chosen.choice(peers)
            if at % 25 == 0:
                read = peer.job(
                    "/read", {"source": SOURCE, "text": chosen.choice((TEXT, TEXT, LONG))}
                )
                run = read.values["number"]
            if chosen.random() < 0.1:
                found = peer.ask(chosen.choice(PATHS[:-8] + PATHS[-7:]), b"{}")
                assert found.status in (0, 404), found
            else:
                says = chosen.choice([*VALID])
                found = peer.ask(f"/{says}", spoilt_body(chosen, says, run))
                assert found.status in (200, 400, 409, 422), found
                if says in JOB_REQUESTS and found.status == 200 and "job" in found.values:
                    found = peer.result(found.values["job"])
                    assert found.status in (200, 409, 422), found
            assert found.sentence not in (INTERNAL_ERROR, SERVER_FAILED), found
            if found.status == 0:
                peers.remove(peer)
                peers.append(stack.enter_context(HostilePeer(server.port)))


@pytest.mark.parametrize(
    ("unsigned", "signed"), [(600, 400), pytest.param(6_000, 4_000, marks=pytest.mark.release)]
)
def test_hostile_requests_change_nothing(alone: ServedFolder, unsigned: int, signed: int) -> None:
    chosen = Random(20)
    assert_right(alone.port)
    attack_unsigned(alone, chosen, WARM // 2)
    attack_signed(alone, chosen, WARM // 2)
    before = sizes(alone)
    attack_unsigned(alone, chosen, unsigned)
    attack_signed(alone, chosen, signed)
    assert_right(alone.port)
    assert said_on_console(alone) == "", "no unexpected error occurred"
    after = sizes(alone)
    assert after.keys() == before.keys(), "the same processes run"
    assert {pid for pid in after if after[pid] - before[pid] > GROWN} == set(), (before, after)


def test_hostile_requests_end_no_process_of_a_split_model(spread: ServedFolder) -> None:
    attack_signed(spread, Random(21), 200)
    assert_right(spread.port)
    assert said_on_console(spread) == ""
    assert len(spread.rank_pids()) == 2


def number_of(begun: Answered) -> int:
    """Return the run id from the response to a request to process a text, finished or not."""
    values = begun.values
    number: int = values["job"] if "job" in values else values["number"]
    return number


# --------------------------------------------------------------------------- slow, large and many


def test_a_body_that_is_too_large_or_has_no_length_is_rejected(alone: ServedFolder) -> None:
    for header, status in (
        (f"content-length: {MAX_BODY_BYTES + 1}", 413),
        ("content-length: 99999999999999999999", 413),
        ("transfer-encoding: chunked", 411),
    ):
        with HostilePeer(alone.port) as peer:
            peer.send(peer.request("/model", b"", header))
            assert peer.answer().status == status, "before the body is sent"
        with HostilePeer(alone.port) as peer:
            peer.send(f"GET / HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n".encode())
            assert peer.answer().status == status
    with HostilePeer(alone.port) as peer:
        padded = b'{"text": "the cat"' + b" " * (MAX_BODY_BYTES - 19) + b"}"
        assert len(padded) == MAX_BODY_BYTES
        assert peer.job("/tokens", padded).values["tokens"] == ["<s>", "the", "cat"]


def test_an_endless_header_is_rejected(alone: ServedFolder) -> None:
    before = sizes(alone)
    with HostilePeer(alone.port) as peer:
        peer.send(b"GET / HTTP/1.1\r\n" + b"x: " + b"a" * 2**24)
        assert peer.answer().status == 0
    assert max(sizes(alone)[pid] - before[pid] for pid in before) < GROWN


def test_clients_that_do_not_read_block_no_other_client(alone: ServedFolder) -> None:
    before = sizes(alone)
    with ExitStack() as stack:
        for _ in range(DEAF):
            deaf = stack.enter_context(HostilePeer(alone.port))
            deaf.socket.settimeout(0)
            try:
                while True:
                    assert deaf.socket.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 1000)
            except OSError:  # the buffer is full, or the connection was closed to make room
                pass
        assert_right(alone.port)
    assert max(sizes(alone)[pid] - before[pid] for pid in before) < GROWN


def test_idle_connections_block_no_other_client(alone: ServedFolder) -> None:
    with ExitStack() as stack:
        idle = [
            stack.enter_context(HostilePeer(alone.port)) for _ in range(MAX_UNAUTHENTICATED + 100)
        ]
        assert_right(alone.port)
        found = psutil.Process(alone.process.pid).net_connections()
        own = [each for each in found if each.laddr.port == alone.port and each.raddr]
        is_open = [each for each in own if each.status == psutil.CONN_ESTABLISHED]
        assert len(is_open) <= MAX_UNAUTHENTICATED + MAX_AUTHENTICATED
        closed = [each for each in idle[:100] if each.answer().status == 0]
        assert len(closed) == 100, "the oldest connections"


# --------------------------------------------------------------------------- signed but hostile


def test_the_server_listens_only_on_the_loopback_interface(server: ServedFolder) -> None:
    whole = psutil.Process(server.process.pid)
    for process in (whole, *whole.children(recursive=True)):
        heard = [each.laddr for each in process.net_connections() if each.status == "LISTEN"]
        assert {address.ip for address in heard} <= {"127.0.0.1"}, process.cmdline()


def test_a_request_cannot_open_another_folder(
    server: ServedFolder, peer: HostilePeer, tmp_path: Path
) -> None:
    other = save_tiny_model(tmp_path / "other", "llama", **{**SIZES, "num_hidden_layers": 1})
    secret = tmp_path / "secret.png"
    os.mkfifo(secret)  # a program that opened it would wait forever
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0)
        places = (
            str(other), "/etc", "../..", "", f"attention://127.0.0.1:{trap.getsockname()[1]}",
            str(secret),
        )  # fmt: skip
        for place in places:
            source = {
                "folder": place, "name": "../../etc", "fingerprint": "0" * 64, "layers": [0],
                "image": {"path": str(secret), "sha256": ""},
            }  # fmt: skip
            values = peer.job("/read", {"source": source, "text": TEXT}).values
            assert values["run"]["captured"]["layers"] == 4
            assert "127.0.0.1" not in str(values)
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert peer.ask("/model", {}).values["name"] == "attacked0"


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/result", {"job": 1}, 422),
        ("/result", {"job": 2**53}, 422),
        ("/result", {"job": 1, "wait": 21}, 400),
        ("/cancel", {"job": 1}, 200),
        ("/stage", {"run": 1, "stages": ["weights"]}, 422),
        ("/measures", {"run": 1, "stage": "weights"}, 422),
        ("/answer", {"run": 1, "question": {"kind": "lens"}}, 422),
        ("/names", {"numbers": [2**53]}, 422),
        ("/names", {"numbers": [VOCABULARY]}, 422),
        ("/names", {"numbers": [1] * 10_001}, 400),
        ("/next_token", {"text": TEXT, "numbers": [VOCABULARY]}, 422),
        ("/next_token", {"text": TEXT, "factors": [[9, 0, 0]]}, 422),
        ("/next_token", {"text": TEXT, "factors": [[0, 0, 1e308]]}, 400),
        ("/next_token", {"text": TEXT, "numbers": [5] * 5_000}, 422),
        ("/next_token", {"text": TEXT, "is_chat": True}, 422),
        ("/tokens", {"text": "a " * (MAX_TEXT_LENGTH // 2)}, 422),
        ("/tokens", {"text": "a" * MAX_TEXT_LENGTH}, 200),
        ("/tokens", {"text": "a" * (MAX_TEXT_LENGTH + 1)}, 400),
        ("/read", {"source": SOURCE, "text": "a" * (MAX_TEXT_LENGTH + 1)}, 400),
        ("/read", {"source": SOURCE, "text": "\0\x1b[31m\u202e" * 100}, 200),
        ("/read", {"source": {**SOURCE, "second": "cat " * 3}, "text": TEXT}, 200),
        ("/read", {"source": {**SOURCE, "second": "cat " * 30_000}, "text": TEXT}, 422),
        ("/read", {"source": {**SOURCE, "part": "../" * 9}, "text": TEXT}, 200),
        *(
            ("/read", {"source": {**SOURCE, "edits": edits}, "text": TEXT}, 422)
            for edits in (
                [{"layer": 0, "head": 0}] * 2,
                [{"layer": 0, "head": at} for at in range(100_000)],
                [{"layer": -1, "head": -1}],
                [{"layer": 0, "head": 2**62}],
                [{"layer": 0, "head": 0, "kind": "scaled", "factor": 1e308}],
                [{"layer": 0, "head": 0, "kind": "patched", "text": "a" * 1_000_000}],
                [{"layer": 0, "head": 0, "kind": "patched", "text": "cat " * 4_000}],
                [{"layer": 0, "head": 0, "text": "the dog ran to a log"}],
            )
        ),
        *(
            ("/read", {"source": {**SOURCE, "cuts": cuts}, "text": TEXT}, 422)
            for cuts in (
                [{"layer": 0, "head": 0, "cells": [[1, 0]]}] * 2,
                [{"layer": 9, "head": 9, "cells": [[1, 0]]}],
                [{"layer": 0, "head": 0, "cells": []}],
                [{"layer": 0, "head": 0, "cells": [[-1, -1]]}],
                [{"layer": 0, "head": 0, "cells": [[2**62, 0]]}],
                [{"layer": 0, "head": 0, "cells": [[at, 0] for at in range(100_001)]}],
            )
        ),
    ],
)  # fmt: skip
def test_signed_requests_are_limited(
    server: ServedFolder, peer: HostilePeer, path: str, asked: dict[str, Any], status: int
) -> None:
    found = peer.job(path, asked) if path[1:] in JOB_REQUESTS else peer.ask(path, asked)
    assert found.status == status
    assert found.sentence not in (INTERNAL_ERROR, SERVER_FAILED)
    assert len(found.sentence) < 500
    assert said_on_console(server) == ""


def test_requests_for_values_of_a_text_are_limited(server: ServedFolder, peer: HostilePeer) -> None:
    run = read_long(peer)["number"]
    asked = {"run": run, "stage": "weights", "place": [0, 0], "rows": [5], "columns": [0, 9]}
    assert peer.ask("/blocks", asked).status == 200
    for spoilt, status in (
        ({"rows": [9_999]}, 422), ({"rows": [*range(MAX_ROWS + 1)]}, 400), ({"rows": []}, 422),
        ({"rows": [5] * MAX_ROWS, "columns": [0, 421]}, 200), ({"columns": [9, 0]}, 422),
        ({"columns": [0, 2**53]}, 422), ({"place": [99, 0]}, 422), ({"place": [0, 99]}, 422),
        ({"place": [0, 0, 0]}, 400), ({"stage": "nowhere"}, 422), ({"stage": "__class__"}, 422),
        ({"block": 2**53}, 200), ({"run": 7}, 422), ({"columns": [1, 9], "block": 2}, 422),
    ):  # fmt: skip
        found = peer.ask("/blocks", {**asked, **spoilt})
        assert found.status == status, (spoilt, found)
        assert found.sentence != INTERNAL_ERROR, spoilt
    of_head = {"run": run, "stage": "weights", "place": [0, 0]}
    picture = decode_response_body(peer.ask("/blocks", of_head).body)[1]["high"]
    assert [0, 0] < [*picture.shape] <= [FIRST_ROWS, FIRST_COLUMNS]
    for some in ({"columns": [0, 9]}, {"block": 2}):
        assert peer.ask("/blocks", {**of_head, **some}).status == 422
    for stage in ("nowhere", "queries", "context"):
        assert peer.job("/measures", {"run": run, "stage": stage}).status == 422
        assert peer.ask("/stage", {"run": run, "stages": [stage]}).status == 422
    for known in KNOWN:
        short = peer.job("/read", {"source": SOURCE, "text": TEXT}).values["number"]
        question = {"run": short, "question": {"kind": "ablations"}, "known": known}
        found = peer.job("/answer", question)
        if len({len(row) for row in known["changes"]}) > 1:
            assert found.status == 422
            assert found.sentence != INTERNAL_ERROR
        else:
            changes = decode_response_body(found.body)[1]["changes"]
            assert changes.shape == (4, 8)
            assert np.isfinite(changes).all(), "all heads are ablated"
    assert said_on_console(server) == ""


def test_all_processes_keep_the_same_texts(spread: ServedFolder) -> None:
    with HostilePeer(spread.port) as peer:
        texts = [f"{'cat ' * at}{LONG}" for at in range(MAX_CACHED_RUNS + 1)]
        runs = [read_long(peer, text) for text in texts[:MAX_CACHED_RUNS]]
        first, second = (run["number"] for run in runs[:2])
        asked = {"run": first, "stage": "weights", "place": [0, 7], "rows": [5], "columns": [0, 9]}
        assert runs[0]["owners"][1]["first"] == 4, "head 7 is on the second process"
        assert peer.ask("/blocks", asked).status == 200, (
            "although the first process does not hold it"
        )
        read_long(peer, texts[-1])
        assert (
            peer.job("/measures", {"run": first, "stage": "weights"}).sentence == RUN_EXPIRED_ERROR
        )
        assert peer.job("/measures", {"run": second, "stage": "weights"}).status == 200


def test_too_many_concurrent_jobs_are_rejected(server: ServedFolder, peer: HostilePeer) -> None:
    asked = json.dumps({"source": SOURCE, "text": LONG}).encode()
    with ExitStack() as stack:
        peers = [
            stack.enter_context(HostilePeer(server.port)) for _ in range(MAX_AUTHENTICATED - 2)
        ]
        for each in peers:
            each.send(each.request("/read", asked))
        found = [each.answer() for each in peers]
    begun = [number_of(each) for each in found if each.status == 200]
    assert {each.sentence for each in found if each.status != 200} == {SERVER_BUSY_ERROR}
    assert len(begun) < len(peers)
    for number in begun:
        peer.ask("/cancel", {"job": number})
    results = [peer.result(number) for number in begun]
    assert {each.status for each in results} <= {200, 409, 422}
    assert all(each.sentence in (UNKNOWN_JOB_ERROR, CANCELLED_ERROR, "") for each in results)
    assert_right(server.port)


def test_jobs_of_other_clients_are_neither_found_nor_cancelled(
    server: ServedFolder, peer: HostilePeer
) -> None:
    asked = {"source": SOURCE, "text": LONG}
    held = server.rank_pids()
    with HostilePeer(server.port) as other:
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            number = peer.ask("/read", asked).values["job"]
            for guess in (*range(50), *range(number - 20, number), *range(number + 1, number + 20)):
                assert other.ask("/cancel", {"job": guess}).status == 200
                assert other.ask("/result", {"job": guess}).sentence == UNKNOWN_JOB_ERROR
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)
        assert peer.result(number).values["number"] == number


def test_running_and_queued_jobs_can_be_cancelled(server: ServedFolder, peer: HostilePeer) -> None:
    run = read_long(peer, " ".join([LONG] * 9))["number"]
    runs = number_of(peer.ask("/measures", {"run": run, "stage": "weights"}))
    waits = number_of(peer.ask("/names", {"numbers": [5]}))
    for number in (waits, runs):
        assert peer.ask("/cancel", {"job": number}).status == 200
    assert [peer.result(number).status for number in (runs, waits)] == [409, 409]
    assert_right(server.port)


def test_the_server_still_responds_after_all_attacks(server: ServedFolder) -> None:
    assert_right(server.port)
    assert server.process.poll() is None
