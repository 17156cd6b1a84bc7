"""A served model, in one or several processes, yields the same numbers as a local model."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from itertools import product
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from tests.support.served_models import ENDED_S, TOKEN, ServedFolder, served
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.model_forward_pass import AblationResult, AnalysisKind, AnalysisRequest
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models import long_text_runner, opened_model
from visualizer.models.answer_model_question import answer_model_question
from visualizer.models.model_client.remote_model import RemoteModel, connect_to_model_server
from visualizer.models.model_client.server_client import ModelServerClient
from visualizer.models.model_protocol.run_message import MAX_WHOLE_BYTES
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ModelSource
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.progress import CancelledError, cancel_when, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.models.model_client.server_client import Response

pytest.importorskip("accelerate", reason="models are spread with accelerate")

KINDS = ("llama", "qwen3", "gemma3_text", "gpt_oss")
SIZES = {
    "num_key_value_heads": 4, "num_attention_heads": 8, "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
}  # fmt: skip
TEXT = "the cat sat on a mat"
LONG = " ".join(["the cat sat on a mat ."] * 70)
"""A text that is slightly longer than the longest one whose matrices are sent in full."""
ALONE = ""
SPREAD = (
    ALONE, "--tensor-parallel 2", "--tensor-parallel 4", "--pipeline-parallel 2",
    "--pipeline-parallel 4",
)  # fmt: skip
QUICK = {
    "llama": (ALONE,),
    "qwen3": ("--pipeline-parallel 2",),
    "gemma3_text": ("--tensor-parallel 2",),
    "gpt_oss": (),
}
"""The combinations that are tested after each change; the others take minutes longer."""
NO_WINDOW = {"sliding_window": None}
"""Config for models whose cache would have a sliding window that their attention lacks."""
MAX_SERVERS = 4
"""Maximum number of running servers: the number that the usual slow tests use, so that each is
started only once.
"""
WITHIN = 1e-6
PATIENCE_S = 30.0
MOST_CELLS = 10**6
EDITS = (
    HeadEdit(1, 5),
    HeadEdit(2, 0, HeadEditKind.PATCHED, text="the dog ran to a log"),
    HeadEdit(3, 7, HeadEditKind.SCALED, 2.0),
)


class Servers:
    """Served models; each is started when a test first needs it, and kept for other tests."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running: dict[tuple[str, ...], tuple[ServedFolder, ExitStack]] = {}

    def folder(self, kind: str) -> Path:
        folder = self._place / kind
        if not folder.exists():
            save_tiny_model(folder, kind, **SIZES, **(NO_WINDOW if kind == "llama" else {}))
        return folder

    def find(self, kind: str, *options: str) -> ServedFolder:
        """Return a running server; if a test has ended the server, start it again."""
        server, stack = self._running.pop((kind, *options), (None, ExitStack()))
        if server is None or server.process.poll() is not None:
            stack.close()
            if len(self._running) == MAX_SERVERS:
                self._close(next(iter(self._running)))
            server = stack.enter_context(served(self.folder(kind), *options))
        self._running[kind, *options] = server, stack
        return server

    def close(self) -> None:
        for key in [*self._running]:
            self._close(key)

    def _close(self, key: tuple[str, ...]) -> None:
        self._running.pop(key)[1].close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with closing(Servers(tmp_path_factory.mktemp("served"))) as found:
        yield found


def both(
    folder: Path, remote: RemoteModel, text: str, monkeypatch: pytest.MonkeyPatch, **changed: object
) -> tuple[Run, Run]:
    """Process a text locally and on the server, and return both runs."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", MAX_WHOLE_BYTES)
    source, held = open_model_folder(folder, Device.CPU)
    here = read_text(replace(source, **changed), text, Device.CPU)
    there = read_text(replace(remote.source, **changed), text, Device.CPU)
    assert here.reading is not None
    assert held is here.reading.model
    return here, there


def assert_equal(here: np.ndarray, there: np.ndarray, within: float = WITHIN) -> None:
    forbidden = np.isneginf(here)
    np.testing.assert_array_equal(forbidden, np.isneginf(there))
    np.testing.assert_allclose(there[~forbidden], here[~forbidden], rtol=0, atol=within)


def assert_near(here: np.ndarray, there: np.ndarray) -> None:
    """Compare numbers of any size, with a tolerance relative to the largest one."""
    largest = np.abs(here[np.isfinite(here)]).max(initial=1.0)
    assert_equal(here, there, 5 * WITHIN * float(largest))


def assert_same_reading(here: Run, there: Run) -> None:
    one, other = here.reading, there.reading
    assert one is not None
    assert other is not None
    assert [each.token for each in other.next_tokens] == [each.token for each in one.next_tokens]
    for mine, its in zip(one.next_tokens, other.next_tokens, strict=True):
        assert its.probability == pytest.approx(mine.probability, abs=WITHIN)
        assert its.probability_of_all_heads == pytest.approx(
            mine.probability_of_all_heads, abs=WITHIN
        )
    for name in ("layers", "edits", "cuts", "text", "special", "parts", "part"):
        assert getattr(other, name) == getattr(one, name)


def ablations(run: Run) -> AblationResult:
    assert run.reading is not None
    question = AnalysisRequest(AnalysisKind.ABLATIONS)
    found = answer_model_question(run.reading, question, ignore_progress, lambda part: None)
    assert isinstance(found, AblationResult)
    return found


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(kind, tuple(options.split()), id=f"{kind} {options}", marks=marks)
        for kind, options in product(KINDS, SPREAD)
        for marks in [pytest.mark.slow if options in QUICK[kind] else pytest.mark.release]
    ],
)
def test_a_served_model_yields_the_values_of_a_local_model(
    servers: Servers, kind: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, server = servers.folder(kind), servers.find(kind, *options)
    remote = connect_to_model_server(server.address, TOKEN)
    here, there = both(folder, remote, TEXT, monkeypatch)
    assert there.texts == here.texts
    names = here.trace.names if not options else there.trace.names
    assert {"queries", "keys", "values", "scores", "weights", "context"} <= {*names}
    for name in names:
        assert_near(here.trace.read(name), there.trace.read(name))
    assert_equal(here.trace.read("weights"), there.trace.read("weights"))
    assert_same_reading(here, there)
    found, other = ablations(here), ablations(there)
    assert other.token == found.token
    assert_equal(found.changes, other.changes)

    cuts = (CutEdges(0, 2, ((3, 1), (4, 0))),)
    here, there = both(folder, remote, TEXT, monkeypatch, edits=EDITS, cuts=cuts)
    assert_equal(here.trace.read("weights"), there.trace.read("weights"))
    assert_same_reading(here, there)
    assert here.reading is not None
    assert there.reading is not None
    assert here.reading.changes is not None
    assert there.reading.changes is not None
    assert_equal(here.reading.changes, there.reading.changes)

    reader = remote.create_predictor(TEXT, {(1, 5): 0.0}, is_chat=False)
    logits = reader.predict([5, 6]).logits
    assert here.reading is not None
    alone = opened_model.open_model(folder, Device.CPU)
    wanted = alone.next_token_log_probabilities(f"{TEXT} cat sat", {(1, 5): 0.0}).numpy()
    shares = logits - np.logaddexp.reduce(logits)
    assert_equal(wanted, shares)
    assert reader.vocabulary[5] == "cat"

    here, there = both(folder, remote, LONG, monkeypatch)
    assert there.trace.is_blockwise
    assert there.trace.names == here.trace.names
    for layer, head in ((0, 0), (1, 5), (3, 7)):
        for name in there.trace.names:
            place = (layer, head)
            assert_near(here.trace.read(name, place), there.trace.read(name, place))
        assert_equal(here.trace.read("weights", place), there.trace.read("weights", place))
    assert_same_reading(here, there)
    drawn = []
    for run in (here, there):
        held = run.trace.cached_stage_tensor("weights")
        held.draw_coarse_rows(4, 4, (1, 5))
        drawn.append(held.read_pooled(4, 4, (1, 5)))
    assert_equal(drawn[0], drawn[1])
    measures = [run.trace.head_measures("weights", run.key_texts) for run in (here, there)]
    for name in ("entropy", "first", "own", "previous", "largest", "value_weighting"):
        mine, its = (getattr(each, name) for each in measures)
        np.testing.assert_allclose(its, mine, rtol=1e-5, atol=1e-5)


def read_again_and_again(source: ModelSource) -> None:
    while True:
        read_text(source, TEXT, Device.CPU)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "which"), [("llama", 0), ("gemma3_text", 1)])
def test_the_loss_of_a_process_is_reported_without_a_hang(
    servers: Servers, kind: str, which: int
) -> None:
    server = servers.find(kind, "--tensor-parallel", "2")
    remote = connect_to_model_server(server.address, TOKEN)
    run = read_text(remote.source, TEXT, Device.CPU)
    pids = sorted(server.rank_pids())[-2:]
    os.kill(pids[which], signal.SIGKILL)
    with pytest.raises(InputError, match=r"A model process exited|was lost"):
        read_again_and_again(remote.source)
    server.process.wait(60)
    assert server.process.returncode == 1
    assert server.process.stderr
    assert "A model process exited" in server.process.stderr.read()
    assert run.trace.read("weights").shape[-1] == 7, "the fetched values remain"


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_the_server_while_the_model_is_loading(servers: Servers, name: str) -> None:
    folder = str(servers.folder("llama"))
    command = [sys.executable, "-m", "visualizer", "serve", folder, "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        server = ServedFolder("", process)
        try:
            while not (ranks := server.rank_pids()):
                assert process.poll() is None
            process.send_signal(getattr(signal, name))
            said, errors = process.communicate(timeout=ENDED_S)
        finally:
            process.kill()
    assert (process.returncode, said) == (0, ""), errors
    assert not any(map(psutil.pid_exists, ranks))


@pytest.fixture(scope="module")
def connected(servers: Servers) -> RemoteModel:
    return connect_to_model_server(servers.find("llama").address, TOKEN)


@pytest.mark.slow
def test_the_server_remains_usable_after_a_cancelled_run(connected: RemoteModel) -> None:
    with cancel_when(lambda: True), pytest.raises(CancelledError):
        read_text(connected.source, LONG, Device.CPU)
    assert read_text(connected.source, TEXT, Device.CPU).trace.read("weights").shape[-1] == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        ({}, "", "The text is empty"),
        ({}, "cat " * 5000, "4,096"),
        ({"edits": (HeadEdit(9, 0),)}, TEXT, "Head 0 of layer 9 does not exist"),
        ({"cuts": (CutEdges(0, 0, ((0, 0),)),)}, TEXT, "would have no key left"),
        ({"part": "nowhere"}, TEXT, ""),
    ],
)
def test_errors_are_reported_to_the_client_that_caused_them(
    connected: RemoteModel, source: dict[str, object], text: str, said: str
) -> None:
    asked: ModelSource = replace(connected.source, **source)
    if said:
        with pytest.raises(InputError, match=said):
            read_text(asked, text, Device.CPU)
    assert read_text(connected.source, TEXT, Device.CPU).trace.read("weights").shape[-1] == 7


@pytest.mark.slow
def test_the_first_text_is_sent_once_and_in_advance(
    connected: RemoteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    job = ModelServerClient.run_job

    def counted(self: ModelServerClient, path: str, *others: Any) -> Response:
        asked.append(path)
        return job(self, path, *others)

    monkeypatch.setattr(ModelServerClient, "run_job", counted)
    model = connect_to_model_server(connected.server_address, TOKEN, text=TEXT)
    ahead = read_text(model.source, TEXT, Device.CPU)
    assert asked == ["/read"]
    again = read_text(model.source, TEXT, Device.CPU)
    assert asked == ["/read"] * 2
    np.testing.assert_array_equal(ahead.trace.read("weights"), again.trace.read("weights"))
    other = read_text(model.source, f"{TEXT} cat", Device.CPU)
    assert asked == ["/read"] * 3
    assert other.trace.read("weights").shape[-1] == again.trace.read("weights").shape[-1] + 1


@pytest.mark.slow
def test_a_text_is_processed_again_over_another_connection(connected: RemoteModel) -> None:
    """Results of the previous connection may have been lost together with the connection."""
    source = connected.source
    first = read_text(source, TEXT, Device.CPU)
    assert read_text(source, TEXT, Device.CPU, first) is first
    model = connect_to_model_server(connected.server_address, TOKEN)
    second = read_text(source, TEXT, Device.CPU, first)
    assert second.reading
    assert second.reading.model is model
    assert read_text(source, TEXT, Device.CPU, second) is second
    del model, second
    gc.collect()
    third = read_text(source, TEXT, Device.CPU)
    assert third.reading
    assert third.reading.model is connected  # which is still referenced


def drawn(run: Run, place: tuple[int, int]) -> np.ndarray:
    """Return the values of a head, or its preview if the text is long."""
    if not run.trace.is_blockwise:
        return run.trace.read("weights", place)
    held = run.trace.cached_stage_tensor("weights")
    assert held.draw_coarse_rows(2, 2, place, MOST_CELLS)
    return held.read_pooled(2, 2, place)


@pytest.mark.slow
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_the_first_heads_are_prefetched_with_the_first_text(
    connected: RemoteModel, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LONG if is_long else " ".join([TEXT] * 5)
    asked: list[object] = []
    ask, is_read = ModelServerClient.fetch_response, Event()

    def noted(self: ModelServerClient, path: str, what: Any) -> Response:
        """Record the requests, and delay the response with the metadata.

        The metadata is returned after the text has been processed, so the prefetched heads always
        come later.
        """
        of_first_layer = what.get("place", [1])[0] == 0
        asked.append(what.get("run") if of_first_layer else path)
        if path == "/model":
            assert is_read.wait(PATIENCE_S)
        found = ask(self, path, what)
        if path == "/read":
            is_read.set()
        return found

    monkeypatch.setattr(ModelServerClient, "fetch_response", noted)
    model = connect_to_model_server(connected.server_address, TOKEN, text=text)
    run = read_text(model.source, text, Device.CPU)
    assert run.trace.is_blockwise == is_long
    places = [(0, head) for head in range(SIZES["num_attention_heads"])]
    heads = [drawn(run, place) for place in places]
    assert run.reading is not None
    assert run.reading.number not in asked, "prefetched heads are not requested again"
    other = read_text(connected.source, text, Device.CPU)
    np.testing.assert_array_equal(heads, [drawn(other, place) for place in places])
