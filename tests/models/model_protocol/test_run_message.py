"""A received run is explained with the model weights that are sent, and no others."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.support.tiny_models import save_tiny_model
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.spec import Device
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import explain
from visualizer.models.model_protocol import run_message
from visualizer.models.model_protocol.run_message import (
    RunMessage,
    build_run_from_message,
    create_short_run_message,
    inline_weight_names,
)
from visualizer.models.model_text_runs import open_model_folder, read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run

TEXT = "the cat sat on the mat"


def sent_and_received(run: Run) -> Run:
    sent, arrays = create_short_run_message(run)
    weights = {name: run.trace.model_weights[name] for name in inline_weight_names(run)}

    def elsewhere(name: str, *, is_attention: bool = False) -> CachedTensor:
        return CachedTensor(run.trace.tensor(name))

    def measure(*_: object) -> None:
        raise AssertionError("nothing is measured")

    sent = msgspec.convert(msgspec.to_builtins(sent), RunMessage)
    return build_run_from_message(sent, arrays, (), None, elsewhere, measure, weights)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    folder = tmp_path_factory.mktemp("models")
    models = []  # keeps the models alive, because a run reads the weights of its model

    @cache
    def read_(kind: str) -> Run:
        source, model = open_model_folder(save_tiny_model(folder / kind, kind), Device.CPU)
        models.append(model)
        return read_text(source, TEXT, Device.CPU)

    return read_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["llama", "gpt2", "mixtral", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("most", [0, 100, 600, 2**16])
def test_every_cell_is_explained_with_the_weights_that_are_sent(
    kind: str, most: int, read: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read(kind)
    monkeypatch.setattr(run_message, "MAX_PARAMETER_BYTES", most)
    there = sent_and_received(run)
    given = 0
    for stage in there.trace.stages:
        cell = (0,) * len(run.trace.tensor(stage.name).shape)
        assert explain(there.trace, stage.name, cell).value == run.trace.read(stage.name, cell)
        given += stage.operation is Operation.CAPTURED
    before = sum(row.operation is Operation.CAPTURED for row in run.trace.stages)
    assert given > before if most < 2**16 else given == before
