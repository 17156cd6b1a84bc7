"""Invalid responses of a server are rejected with an error message, or can be shown."""

from __future__ import annotations

import copy
import json
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples, others_slow
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.model_forward_pass import AnalysisKind, AnalysisRequest
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.explanations.explain import explain
from visualizer.models.model_client.remote_model import RemoteModel
from visualizer.models.model_protocol.requests import IMMEDIATE_REQUESTS, JOB_REQUESTS
from visualizer.models.model_protocol.responses import decode_response_body, encode_response_body
from visualizer.models.model_server.served_model import ServedModel
from visualizer.models.model_source import ModelSource
from visualizer.models.model_text_runs import open_model_folder
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from visualizer.attention.run import Run
    from visualizer.models.model_client.server_client import ModelServerClient, Response

    Damage = Callable[[str, dict[str, Any], dict[str, np.ndarray]], None]
    Opened = Callable[[str, str], "ServedHere"]
    Place = tuple[str | int, ...]

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about such small models

TEXT = "the cat sat on the mat"
NUMBER = 7
SHORT, LONG = "short", "long"
LONGEST = 5_000
"""Maximum number of characters in an error message for an invalid response."""
BAD: tuple[Any, ...] = (
    None, -1, 0, 1, 5, 10**6, 10**9, 2**70, -(2**63), 1.5, float("inf"), float("-inf"),
    float("nan"), True, "", "weights", "x" * 50, [], [[]], [None], ["a"], [float("inf")], {},
    {"a": 1},
)  # fmt: skip
BAD_ARRAYS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda array: np.nan_to_num(array).astype(np.int64),
    lambda array: array.astype(np.float64),
    lambda array: array.astype(np.float16),
    lambda array: array.astype(bool),
    lambda array: array.reshape(-1),
    lambda array: array.reshape(-1)[:0],
    lambda array: np.zeros((), array.dtype),
    lambda array: array[..., :-1],
    lambda array: array[None],
    lambda array: array.T,
    lambda array: np.concatenate([array, array]),
    lambda array: np.full(array.shape, np.nan, np.float32),
    lambda array: np.full(array.shape, np.inf, np.float32),
)
ASKED = (
    "read", "read", "read", "model", "tokens", "stage", "blocks", "weights", "measures", "answer",
    "next_token", "names",
)  # fmt: skip
"""Requests whose responses are damaged; a response to "read" contains most of the values."""


class ServedHere:
    """Stand-in for a connection: a model in this process responds, and its responses are damaged.

    Undamaged responses are cached until another text is processed, because they are always the
    same.
    """

    host, port, address = "127.0.0.1", 1, "127.0.0.1:1"

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        self.damage: Damage = lambda says, values, arrays: None
        self._known: dict[str, Response] = {}
        self._read = ""

    def open_connections(self, count: int) -> None:
        pass

    def fetch_response(self, path: str, asked: dict[str, Any]) -> Response:
        says, sent = path.removeprefix("/"), json.dumps(asked)
        if says == "read" and sent != self._read:
            self._known.clear()
            self._read = sent
        if path + sent not in self._known:
            self._known[path + sent] = self._answered(says, sent)
        values, arrays = decode_response_body(encode_response_body(*self._known[path + sent]))
        self.damage(says, values, arrays)
        return decode_response_body(encode_response_body(values, arrays))

    def run_job(self, path: str, asked: dict[str, Any], *told: object) -> Response:
        return self.fetch_response(path, asked)

    def _answered(self, says: str, sent: str) -> Response:
        if says == "model":
            return self.served.metadata, {}
        asked: Any = msgspec.json.decode(sent, type={**JOB_REQUESTS, **IMMEDIATE_REQUESTS}[says])
        match says:
            case "read":
                return self.served.read(NUMBER, asked)
            case "answer":
                return self.served.answer(asked, ignore_progress, lambda part: None)
            case "measures":
                return self.served.measures(asked, ignore_progress)
            case "names":
                return self.served.names(asked.numbers)
        answer: Response = getattr(self.served, says)(asked)
        return answer


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    @cache
    def opened_(kind: str, setting: str) -> ServedHere:
        folder = save_tiny_model(tmp_path_factory.mktemp("models") / kind, kind)
        source, model = open_model_folder(folder, Device.CPU)
        if setting == LONG:
            model.long_texts.max_weight_bytes = 1
        return ServedHere(ServedModel(source, model, Device.CPU))

    return opened_


def places(values: object, before: Place = ()) -> Iterator[Place]:
    """Yield the paths of all values; for lists, only those of the first elements."""
    if before:
        yield before
    if isinstance(values, dict):
        for name in values:
            yield from places(values[name], (*before, name))
    elif isinstance(values, list):
        for at in range(min(len(values), 6)):
            yield from places(values[at], (*before, at))


def damaged(data: st.DataObject, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Remove or replace one value or one array."""
    is_removed = data.draw(st.integers(0, 9)) == 0
    is_array = data.draw(st.booleans())
    if arrays and is_array:
        name = data.draw(st.sampled_from(sorted(arrays)))
        if is_removed:
            del arrays[name]
        else:
            change = data.draw(st.sampled_from(range(len(BAD_ARRAYS))))
            arrays[name] = BAD_ARRAYS[change](arrays[name])
        return
    found = [*places(values)]
    if not found:
        return
    *before, last = found[data.draw(st.integers(0, len(found) - 1))]
    within: Any = values
    for each in before:
        within = within[each]
    if is_removed:
        del within[last]
    else:
        within[last] = copy.deepcopy(data.draw(st.sampled_from(BAD)))


def use(model: RemoteModel, refusals: Callable[[], AbstractContextManager[object]]) -> list[str]:
    """Use a model as the window does; each step is done in the context returned by `refusals`.

    Returns
    -------
    list of str
        The stages whose cells were read.
    """
    shown = []
    with refusals():
        model.fallback_text(TEXT)
    with refusals():
        continued(model)
    with refusals():
        run = model.read(ModelSource("", "", model.fingerprint), TEXT, None)
        trace, reading = run.trace, run.reading
        assert reading is not None
        for row in trace.stages:
            with refusals():
                cells_of(run, row.name)
                shown.append(row.name)
        with refusals():
            trace.head_measures(trace.attention_stage_name, run.key_texts)
        with refusals():
            assert reading.fetch_captured is None or reading.fetch_captured() is not None
        for kind in AnalysisKind:
            with refusals():
                asked = AnalysisRequest(kind, is_costly=True)
                model.answer(reading, asked, ignore_progress, lambda part: None)
    return shown


def cells_of(run: Run, stage: str) -> None:
    sizes = run.trace.shape(stage)
    first = (0,) * len(sizes)
    run.trace.read(stage, first)
    run.trace.read(stage, tuple(size - 1 for size in sizes))
    run.trace.read(stage, first[:-2])
    run.trace.limits(stage)
    explain(run.trace, stage, first)


def continued(model: RemoteModel) -> None:
    reader = model.create_predictor(TEXT, {}, is_chat=False)
    reader.predict([5])
    assert len(reader.vocabulary[:1]) == 1
    assert reader.ends is not None
    assert all(isinstance(word, str) for word in (*reader.words, reader.continued_text([5])[0]))


def connected(here: ServedHere) -> RemoteModel:
    return RemoteModel(cast("ModelServerClient", here))


@pytest.mark.parametrize("setting", [SHORT, LONG])
@pytest.mark.parametrize("kind", ["llama", "gpt_oss"])
def test_undamaged_responses_are_accepted(kind: str, setting: str, opened: Opened) -> None:
    here = opened(kind, setting)
    here.damage = lambda says, values, arrays: None
    shown = use(connected(here), nullcontext)
    assert {"queries", "keys", "values", "weights", "context"} <= {*shown}


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("llama", SHORT),
        ("llama", LONG),
        *others_slow(
            [*((kind, SHORT) for kind in ("gpt2", "gemma2", "gpt_oss", "mixtral")),
             ("gpt_oss", LONG)],
            first=0,
        ),
    ],
)  # fmt: skip
@given(asked=st.sampled_from(ASKED), data=st.data())
@examples(4)
def test_damaged_responses_are_rejected_or_can_be_shown(
    kind: str, setting: str, opened: Opened, asked: str, data: st.DataObject
) -> None:
    here = opened(kind, setting)

    def damage(says: str, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if says == asked:
            damaged(data, values, arrays)

    here.damage = damage
    refused: list[str] = []
    refusals = partial(refusal_kept, refused)
    with refusals():
        use(connected(here), refusals)
    assert max(map(len, refused), default=0) <= LONGEST


@contextmanager
def refusal_kept(kept: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as refused:
        kept.append(refused.sentence)
