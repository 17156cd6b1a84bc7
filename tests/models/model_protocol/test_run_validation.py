"""The server's run data is valid for every kind of model; a run that cannot be drawn is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.support.examples import others_slow
from tests.support.tiny_models import DECODERS, ENCODERS, PAIRS, save_tiny_model
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.model_protocol.requests import TextRunRequest
from visualizer.models.model_protocol.responses import (
    decode_response_body,
    decode_response_values,
    encode_response_body,
)
from visualizer.models.model_protocol.run_message import TextRunResponse
from visualizer.models.model_protocol.run_validation import check_received_run
from visualizer.models.model_server.served_model import ServedModel
from visualizer.models.model_source import ModelSource
from visualizer.models.model_text_runs import open_model_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.models.opened_model import OpenedModel

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about such small models

TEXT = "the cat sat on the mat"
QUICK = ("llama", "modernbert", "opt")
"""In "modernbert", the norm of one layer is an identity; "opt" calls itself a decoder but is a
whole model.
"""
OTHERS = tuple(kind for kind in (*DECODERS, *ENCODERS, *PAIRS) if kind not in QUICK)


def read(served: ServedModel, part: str = "") -> TextRunResponse:
    answer = served.read(1, TextRunRequest(ModelSource("", "", "", part=part), TEXT))
    return decode_response_values(
        TextRunResponse, decode_response_body(encode_response_body(*answer))[0]
    )


def opened(folder: Path, kind: str, **settings: int) -> ServedModel:
    return serve(*open_tiny(folder, kind, **settings))


def open_tiny(folder: Path, kind: str, **settings: int) -> tuple[ModelSource, OpenedModel]:
    return open_model_folder(save_tiny_model(folder / kind, kind, **settings), Device.CPU)


def serve(source: ModelSource, model: OpenedModel) -> ServedModel:
    return ServedModel(source, model, Device.CPU)


@pytest.mark.parametrize("kind", others_slow((*QUICK, *OTHERS), len(QUICK)))
def test_every_part_of_every_architecture_is_valid(kind: str, tmp_path: Path) -> None:
    source, model = open_tiny(tmp_path, kind)
    served = serve(source, model)
    first = read(served)
    check_received_run(first)
    for name, _ in first.run.reading.parts:
        check_received_run(read(served, name))
    assert "weights" in first.shapes
    model.long_texts.max_weight_bytes = 1
    check_received_run(read(served))


def row(values: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in values["run"]["stages"] if one["name"] == name)
    return found


def no_result(values: dict[str, Any]) -> None:
    """Remove the stage that is the input of the next layer."""
    values["run"]["stages"].remove(row(values, "result"))
    del values["shapes"]["result"]


def no_axes(values: dict[str, Any]) -> None:
    row(values, "normed")["dims"] = []
    values["shapes"]["normed"] = [2]


LIES: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
    ("number of query tokens", lambda all_: all_["run"]["tokens"].pop()),
    ("set of stages", lambda all_: all_["run"]["stages"].clear()),
    ("set of stages", lambda all_: all_["run"]["stages"].reverse()),
    ("set of stages", lambda all_: row(all_, "normed").update(name="nothing")),
    ("set of shapes", lambda all_: all_["shapes"].clear()),
    ("set of shapes", lambda all_: all_["shapes"].update(nothing=[1])),
    ("shape of normed", no_axes),
    ("shape of values", lambda all_: all_["shapes"].update(values=[2, 4, 7, 10**9])),
    ("shape of values", lambda all_: row(all_, "values").update(dims=["head", "a", "b"])),
    ("limits", lambda all_: all_.update(limits=[1.0, float("nan")])),
    ("the size of", lambda all_: all_["run"]["captured"].update(heads=10**9)),
    ("number of key tokens", lambda all_: all_["run"]["key_tokens"].pop()),
    ("layer numbers", lambda all_: all_["run"]["reading"].update(layers=[1, 1])),
    ("layer numbers", lambda all_: all_["run"]["reading"].update(layers=[0, 10**6])),
    ("special token", lambda all_: all_["run"]["reading"].update(special=[[7, "end"]])),
    ("cut edges", lambda all_: all_["run"]["reading"].update(cuts=[[0, 0, [[0, 9]]]])),
    ("inputs of residual", lambda all_: row(all_, "residual").update(reads=["nothing"])),
    ("inputs of values", lambda all_: row(all_, "values").update(reads=["values"])),
    ("inputs of values", lambda all_: row(all_, "values").update(reads=["scores"])),
    ("inputs of attended", lambda all_: all_["shapes"].update(output=[2, 7, 1])),
    ("inputs of keys", lambda all_: all_["shapes"].update(keys=[2, 4, 7, 3])),
    ("inputs of concat", lambda all_: all_["shapes"].update(concat=[2, 7, 64])),
    ("inputs of context", lambda all_: row(all_, "context").update(reads=["values"])),
    ("operation of normed", lambda all_: all_["weights"].clear()),
    ("operation of normed", lambda all_: row(all_, "normed")["step"]["modules"].pop()),
    ("operation of residual", no_result),
    ("operation of residual", lambda all_: row(all_, "residual")["step"].update(before=[1, None])),
    ("operation of hidden", lambda all_: row(all_, "hidden")["step"].update(function="none")),
    (
        "operation of residual",
        lambda all_: row(all_, "residual")["step"].update(
            embedded={"type": "EmbeddedTokens", "tables": [["nothing", [0] * 7]]}
        ),
    ),
    (
        "operation of queries",
        lambda all_: all_["weights"].update(
            {name: [1, 1, 1] for name in all_["weights"] if name.endswith((".cos", ".sin"))}
        ),
    ),
    ("row of normed", lambda all_: row(all_, "normed").update(by_layer=[row(all_, "values")] * 2)),
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(
        read(opened(tmp_path_factory.mktemp("a"), "llama"))
    )
    return values


@pytest.mark.parametrize(("what", "lie"), LIES, ids=range(len(LIES)))
def test_a_run_that_cannot_be_drawn_or_explained_is_rejected(
    what: str, lie: Callable[[dict[str, Any]], object], honest: dict[str, Any]
) -> None:
    values = json.loads(json.dumps(honest))
    check_received_run(decode_response_values(TextRunResponse, values))
    lie(values)
    with pytest.raises(InputError, match=rf"invalid run data \({what}") as refused:
        check_received_run(decode_response_values(TextRunResponse, values))
    assert refused.value.field == "server"


def test_values_of_other_types_are_rejected(honest: dict[str, Any]) -> None:
    for name in ("number", "run"):
        for wrong in (float("inf"), 2**70, None, "x"):
            with pytest.raises(InputError, match="Invalid response"):
                decode_response_values(TextRunResponse, {**honest, name: wrong})
