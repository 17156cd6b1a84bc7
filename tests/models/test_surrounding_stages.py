"""Tests stages computed on access, and steps recognized with one text and used for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.examples import others_slow
from tests.support.explained_values import result_of
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer import InputError
from visualizer.attention import layered_tensor
from visualizer.attention.spec import Device
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import explain
from visualizer.models import surrounding_stages
from visualizer.models.opened_model import open_model
from visualizer.models.surrounding_stages import add_surrounding_stages

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.recorded_runs import LayerGroupRun

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
KINDS = ("llama", "qwen3", "gemma2", "gpt2", "gpt_oss", "bert", "phi", "olmo2", "gpt_neox")
TEXT = " ".join((WORDS * 3)[:30])
FIRST, OTHER = "the cat sat on the mat", "a dog ran to the log and sat"


@pytest.fixture
def _repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all stages around the attention on access."""
    monkeypatch.setattr(surrounding_stages, "MAX_HELD_LAYER_BYTES", 0)


def opened(tmp_path: Path, kind: str) -> OpenedModel:
    return open_model(save_tiny_model(tmp_path / kind, kind), Device.CPU)


@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_stages_computed_on_access_equal_stored_stages(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tmp_path, kind)
    held = model.attend(TEXT)
    monkeypatch.setattr(surrounding_stages, "MAX_HELD_LAYER_BYTES", 0)
    monkeypatch.setattr(layered_tensor, "MAX_CACHED_BYTES", 0)
    computed = model.attend(TEXT)
    for one, other in zip(held, computed, strict=True):
        assert one.group.layers == other.group.layers
        first, second = one.run.trace, other.run.trace
        assert first.names == second.names
        assert first.stages == second.stages
        for name in first.names:
            np.testing.assert_allclose(second.read(name), first.read(name), atol=1e-6)
            assert second.limits(name) == pytest.approx(first.limits(name), abs=1e-6)


@pytest.mark.usefixtures("_repeated")
@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_terms_of_stages_computed_on_access_add_up(tmp_path: Path, kind: str) -> None:
    (found, *_) = opened(tmp_path, kind).attend(TEXT)
    trace, chance = found.run.trace, np.random.default_rng(3)
    for name in trace.names:
        if trace.stage(name).operation.value == "captured":
            continue
        place = tuple(int(chance.integers(size)) for size in trace.shape(name))
        at = place if trace.axes else (0, *place)
        value = float(trace.read(name, place))
        if np.isfinite(value):
            assert result_of(explain(trace, name, at)) == pytest.approx(value, abs=1e-5), name


@pytest.mark.usefixtures("_repeated")
def test_edits_and_cut_edges_apply_when_layers_run_again(tmp_path: Path) -> None:
    model = opened(tmp_path, "llama")
    (found,) = model.read(TEXT, {(0, 1): 0.0}, {(1, 2): [(5, 3)]}).runs
    trace = found.run.trace
    assert not trace.read("concat", (0, slice(None), slice(8, 16))).any()
    assert trace.read("concat", (1, slice(None), slice(8, 16))).any()
    assert trace.read("weights", (1, 2, 5, 3)) == 0
    assert trace.read("weights", (1, 2, 5)).sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(trace.read("residual", (1,)), trace.read("result", (0,)), atol=1e-6)


@pytest.mark.usefixtures("_repeated")
def test_only_the_requested_layers_and_stages_are_kept(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama", num_hidden_layers=4)
    model = visualizer.open_model(folder)
    whole = model.attend(TEXT)
    some = model.attend(TEXT, layers=[1, 3], stages=["context", "up"])
    assert some.layers == (1, 3)
    assert some.stages == ("weights", "context", "up")
    for name in some.stages:
        np.testing.assert_allclose(some[name], whole[name][[1, 3]], atol=1e-6)
    attention = some.attention(3)
    assert attention.explain("context", layer=1, head=0, query=4, d_head=2).value
    one = model.attend(TEXT, layers=2, stages="values")
    assert (one.layers, one.stages) == ((2,), ("values", "weights"))
    np.testing.assert_allclose(one["values"], whole["values"][[2]], atol=1e-6)
    each = model.attend([TEXT, "the cat sat"], layers=0)
    assert [found.layers for found in each] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"layers": [0, 9]}, "layers", "Layer 9 has no attention. Layers with attention: 0 to 1."),
        ({"layers": []}, "layers", "layers must not be empty"),
        ({"layers": [0.5]}, "layers", "0.5"),
        ({"stages": ["wieghts"]}, "stages", "The stage “wieghts” does not exist"),
        ({"stages": ["dropped"]}, "stages", "Stage “dropped” is not available"),
    ],
)
def test_unknown_layers_and_stages_are_rejected(
    tiny_model_folder: Path, given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        visualizer.open_model(tiny_model_folder).attend("the cat sat", **given)
    assert refused.value.field == field
    assert words in refused.value.sentence


@pytest.fixture
def recognized(tmp_path: Path) -> OpenedModel:
    model = open_model(save_tiny_model(tmp_path / "llama"))
    (run,) = model.attend(FIRST)
    assert run.run.trace.stage("hidden").operation is Operation.HIDDEN_ACTIVATION
    return model


def test_layers_are_recognized_while_no_other_thread_runs_the_model(
    recognized: OpenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = []

    def watched(*given: Any) -> LayerGroupRun:
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(recognized.forward.lock.acquire, blocking=False).result())
        return add_surrounding_stages(*given)

    monkeypatch.setattr(surrounding_stages, "add_surrounding_stages", watched)
    recognized.attend(OTHER)
    assert free == [False]


def stages_of(model: OpenedModel) -> dict[str, Operation]:
    (run,) = model.attend(OTHER)
    trace = run.run.trace
    cell = (1, 3, 5)
    for name in ("attended", "result"):
        assert result_of(explain(trace, name, cell)) == pytest.approx(
            float(trace.read(name, cell)), abs=1e-5
        )
    return {row.name: row.operation for row in trace.stages}


def test_a_module_skipped_for_another_text_is_not_explained(recognized: OpenedModel) -> None:
    mlp = recognized.model.model.layers[1].mlp

    def without_modules(stream: Any) -> Any:
        gate, up, down = (part.weight for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        return (torch.nn.functional.silu(stream @ gate.T) * (stream @ up.T)) @ down.T

    mlp.forward = without_modules
    found = stages_of(recognized)
    assert "hidden" not in found
    assert found["feed_forward"] is Operation.CAPTURED
    assert found["queries"] is Operation.ROTARY_POSITION
    del mlp.forward
    assert stages_of(recognized)["hidden"] is Operation.HIDDEN_ACTIVATION
