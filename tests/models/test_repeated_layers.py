"""Tests that stages computed on access are equal to stored stages, and are explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.explained_values import result_of
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer import InputError
from visualizer.attention import layered_tensor
from visualizer.attention.spec import Device
from visualizer.explanations.explain import explain
from visualizer.models import surrounding_stages
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.opened_model import OpenedModel

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
KINDS = ("llama", "qwen3", "gemma2", "gpt2", "gpt_oss", "bert", "phi", "olmo2", "gpt_neox")
TEXT = " ".join((WORDS * 3)[:30])


def others_slow(names: tuple[str, ...]) -> list[Any]:
    return [names[0], *(pytest.param(name, marks=pytest.mark.slow) for name in names[1:])]


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
def test_weights_equal_those_of_the_model(tmp_path: Path) -> None:
    model = opened(tmp_path, "llama")
    (found,) = model.attend(TEXT)
    given = model.inputs(TEXT)[0]
    with torch.no_grad():
        wanted = model.model(**given, output_attentions=True, output_hidden_states=True)
    weights = torch.cat(wanted.attentions).numpy()
    np.testing.assert_allclose(found.run.trace.read("weights"), weights, atol=1e-6)
    stream = torch.cat(wanted.hidden_states[:-1]).numpy()
    np.testing.assert_allclose(found.run.trace.read("residual"), stream, atol=1e-6)


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
