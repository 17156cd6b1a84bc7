"""Tests the explanations from an attention weight back to the embedding against float64."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.explained_values import result_of
from tests.support.reference_llama import ReferenceLlama
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.layer_operations import EmbeddedTokens, ResidualStream
from visualizer.attention.spec import Device, ModelDtype
from visualizer.explanations.cell_terms import CombinationRule
from visualizer.explanations.explain import explain
from visualizer.models import surrounding_stages
from visualizer.models.opened_model import OpenedModel, open_model

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_terms import Factor

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat the cat"
REAL = "The quiet owl sat on the branch. The quiet"
MOST_STEPS = 2_000


class Walk:
    """Follows the largest factors of a cell from stage to stage, and compares their values."""

    def __init__(self, trace: Trace, reference: ReferenceLlama, tokens: list[int]) -> None:
        self.trace, self.reference = trace, reference
        self.layers = reference.layers(tokens)
        self.stages: list[tuple[int, str]] = []
        self.worst = 0.0

    def back(self, stage: str, cell: tuple[int, ...]) -> str:
        """Go back until no stage of the trace is used; return the name of the last source."""
        for _ in range(MOST_STEPS):
            self.stages.append((cell[0], stage))
            found = explain(self.trace, stage, cell)
            layer, *place = cell
            own = self.layers[layer][stage]
            self._compare(own[tuple(place)], found.value, own)
            self._compare(found.value, result_of(found), own)
            for group in found.groups:
                for factor in group.factors:
                    self._factor(factor)
            is_choice = found.rule is CombinationRule.CHOICE
            groups = [found.groups[found.chosen]] if is_choice else found.groups
            group = max(groups, key=lambda each: float(np.abs(each.products).max()))
            factors, largest = group.factors, int(np.abs(group.products).argmax())
            read = [factor for factor in factors if factor.name in self.trace]
            if not read:
                return factors[0].name
            # Follow the stage, not the weight by which it is multiplied.
            factor = max(read, key=lambda each: abs(float(each.read[largest % len(each.read)])))
            stage, cell = factor.name, factor.source_index(largest)
        raise AssertionError("The way has no end.")

    def _factor(self, factor: Factor) -> None:
        """Compare all values of a factor with those of a stage, the weights or the angles."""
        if not factor.name:
            return
        index = tuple(slice(None) if at is None else at for at in factor.index)
        if factor.name in self.trace:
            own = self.layers[int(str(index[0]))][factor.name]
            wanted = own[index[1:]]
        elif factor.name.startswith("rotary."):
            pairs = self.trace.tensor("queries").shape[-1]
            cosines, sines = self.reference.angles(self.trace.query_count, pairs)
            own = cosines if factor.name.endswith("cos") else sines
            wanted = own[index[1:]]
        else:
            own = self.reference.weights[factor.name]
            wanted = own[index]
        self._compare(wanted, factor.read, own)

    def _compare(self, wanted: object, seen: object, whole: np.ndarray) -> None:
        one, other = (np.atleast_1d(np.asarray(numbers, dtype=float)) for numbers in (wanted, seen))
        finite = np.isfinite(one)
        assert (np.isfinite(other) == finite).all()
        scale = float(np.abs(whole[np.isfinite(whole)]).max())
        self.worst = max(self.worst, float(np.abs(one - other)[finite].max(initial=0)) / scale)


def walked(model: OpenedModel, text: str, layer: int, head: int, place: int) -> tuple[Walk, str]:
    tokens = tokenizer_of(model)(text)["input_ids"]
    (found,) = model.attend(text)
    walk = Walk(found.run.trace, ReferenceLlama(model.folder.path), tokens)
    return walk, walk.back("weights", (layer, head, place, place))


# transformers computes norms, angles and softmax in float32 regardless of the model's dtype.
@pytest.mark.parametrize(
    ("dtype", "most"), [(ModelDtype.FLOAT64, 1e-6), (ModelDtype.FLOAT32, 5e-6)]
)
def test_every_value_on_the_trail_matches_the_checkpoint(
    tmp_path: Path, dtype: ModelDtype, most: float
) -> None:
    save_tiny_model(tmp_path, "llama", num_hidden_layers=4)
    walk, end = walked(open_model(tmp_path, Device.CPU, dtype), TEXT, 3, 1, 6)
    assert end == "model.embed_tokens.weight"
    assert walk.worst <= most
    met = {stage for _, stage in walk.stages}
    assert {"weights", "masked", "scaled", "scores", "normed", "residual", "result"} <= met
    assert {layer for layer, _ in walk.stages} == {0, 1, 2, 3}


def test_every_stage_of_every_layer_matches_the_checkpoint(tmp_path: Path) -> None:
    save_tiny_model(tmp_path, "llama", num_hidden_layers=3)
    model = open_model(tmp_path, Device.CPU, ModelDtype.FLOAT64)
    (found,) = model.attend(TEXT)
    layers = ReferenceLlama(tmp_path).layers(tokenizer_of(model)(TEXT)["input_ids"])
    assert {*found.run.trace.names} == {*layers[0]}
    for at, layer in enumerate(layers):
        for name, wanted in layer.items():
            np.testing.assert_allclose(found.run.trace.read(name, (at,)), wanted, atol=1e-6)


def test_the_first_layer_uses_the_embedding_rows_of_the_current_text(tmp_path: Path) -> None:
    save_tiny_model(tmp_path, "llama")
    model = open_model(tmp_path, Device.CPU)
    for text in (TEXT, "a log . and", "dog"):
        (found,) = model.attend(text)
        step = found.run.trace.stage("residual").step
        assert isinstance(step, ResidualStream)
        assert isinstance(step.embedded, EmbeddedTokens)
        assert step.embedded.tables[0][1] == tuple(tokenizer_of(model)(text)["input_ids"])


@pytest.mark.slow
def test_the_trail_through_a_real_model_matches_its_checkpoint() -> None:
    folder = os.environ.get("ATTENTION_VISUALIZER_MODEL", "")
    if not (Path(folder) / "config.json").is_file():
        pytest.skip("ATTENTION_VISUALIZER_MODEL names no folder of a model of the Llama kind")
    walk, end = walked(open_model(Path(folder), Device.CPU), REAL, 11, 5, 8)
    assert end == "model.embed_tokens.weight"
    assert {layer for layer, _ in walk.stages} == {*range(12)}
    assert walk.worst <= 1e-4


def test_stages_that_need_too_much_memory_are_omitted_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny_model(tmp_path, "llama")
    model = open_model(tmp_path, Device.CPU)
    (whole,) = model.attend(TEXT)
    assert whole.notices == ()
    assert "residual" in whole.run.trace
    monkeypatch.setattr(surrounding_stages, "MAX_LAYER_BYTES", 1_000)
    (found,) = model.attend(TEXT)
    assert "residual" not in found.run.trace
    assert found.run.trace.names[0] == "queries"
    (notice,) = found.notices
    assert notice.startswith("Only attention is shown. The other stages of all layers would need")
