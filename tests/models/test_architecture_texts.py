"""Tests texts, second texts and generation with every architecture against the model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.explained_values import result_of
from tests.support.tiny_models import (
    BY_THEMSELVES,
    CAUSAL_HEADS,
    DECODERS,
    ENCODERS,
    PAIRS,
    POSITIONS,
    SMALL,
    VOCABULARY,
    save_tiny_model,
)
from visualizer.attention.layer_operations import ResidualStream
from visualizer.explanations.explain import explain
from visualizer.models.kv_cache_generation import NextTokenPredictor, combine_attention_rows
from visualizer.models.opened_model import OpenedModel, open_model

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT, SECOND = "the cat sat on the mat", "a dog ran to the log"
QUICK = ("llama", "bert", "bart", "bart causal head")
CHOOSES_KEYS = "deepseek_v32"
"""In transformers, the keys that it selects for a query depend on later tokens."""


def kinds(*names: str) -> list[Any]:
    slow = pytest.mark.slow
    return [name if name in QUICK else pytest.param(name, marks=slow) for name in names]


CONTINUED = kinds(*(kind for kind in DECODERS if kind != CHOOSES_KEYS), *CAUSAL_HEADS)
OF_TABLES = kinds("bart", "mbart", "bart causal head", "mbart causal head", "opt")
TEXTS = kinds(*DECODERS, *ENCODERS, *PAIRS, *BY_THEMSELVES, *CAUSAL_HEADS)


def opened(folder: Path, name: str) -> OpenedModel:
    return open_model(save_tiny_model(folder / name.partition(" ")[0], name))


def own_attentions(model: Any, given: Any) -> list[torch.Tensor]:
    model.set_attn_implementation("eager")
    model.config._attn_implementation = "eager"  # also for models without the attention interface
    with torch.no_grad():
        result = model(**given, output_attentions=True)
    sides = (result[name] for name in result if name.endswith("attentions") and result[name])
    return [weights[0] for side in sides for weights in side if weights is not None]


def weights_of(run: Run) -> np.ndarray:
    weights = run.trace.read("weights")
    return weights if run.trace.axes else weights[None]


def test_tiny_models_have_sizes_in_the_same_order_as_real_models(tmp_path: Path) -> None:
    given, words, _ = open_model(save_tiny_model(tmp_path / "llama")).encode_inputs(TEXT)
    assert int(given["input_ids"].max()) == VOCABULARY - 1
    assert SMALL["hidden_size"] < POSITIONS < VOCABULARY
    assert len(words) < SMALL["hidden_size"]


@pytest.mark.parametrize("name", TEXTS)
def test_weights_of_texts_equal_those_of_the_model(tmp_path: Path, name: str) -> None:
    model = opened(tmp_path, name)
    for second in (None, SECOND):
        found = [layer for each in model.attend(TEXT, second) for layer in weights_of(each.run)]
        own = own_attentions(model.model, model.encode_inputs(TEXT, second)[0])
        assert len(found) == len(own)
        for weights in own:
            alike = [layer for layer in found if layer.shape == tuple(weights.shape)]
            assert min(np.abs(weights.numpy() - layer).max() for layer in alike) <= 1e-6


@pytest.mark.parametrize("name", OF_TABLES)
def test_embedding_rows_are_those_that_the_model_looks_up(tmp_path: Path, name: str) -> None:
    """BART passes token ids to its position embedding, and OPT passes a mask."""
    model = opened(tmp_path, name)
    for second in (SECOND, "the log"):  # the steps recognized with one text apply to another
        given = model.encode_inputs(TEXT, second)[0]
        ids_name = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
        (ids,) = given[ids_name].tolist()
        run = next(
            each.run
            for each in model.attend(TEXT, second)
            if "encoder" not in each.group.name.split(".") and not each.group.is_cross
        )
        step = run.trace.stage("residual").step_of_type(ResidualStream)
        assert step.embedded
        tables = [rows for _, rows in step.embedded.tables]
        assert tables == [tuple(ids), tuple(range(2, 2 + len(ids)))]
        found = explain(run.trace, "residual", (0, 2, 5))
        assert result_of(found) == pytest.approx(found.value, abs=1e-5)


@pytest.mark.parametrize("name", CONTINUED)
def test_rows_of_generated_tokens_equal_those_of_one_pass(tmp_path: Path, name: str) -> None:
    model = opened(tmp_path, name)
    reader, numbers = NextTokenPredictor(model, TEXT), [VOCABULARY - 1, 5, POSITIONS + 1, 9]
    steps = [reader.predict(numbers[:count]) for count in range(len(numbers) + 1)]
    given = model.encode_inputs(TEXT)[0]["input_ids"]
    ids = torch.cat([given, torch.tensor([numbers])], -1)
    with visualizer.capture(model.model) as seen, torch.no_grad():
        logits = model.model(ids).logits[0].double().numpy()
    for step, wanted in zip(steps, logits[given.shape[-1] - 1 :], strict=True):
        np.testing.assert_allclose(step.logits, wanted, atol=1e-5)
    for each in seen.runs:
        for layer, wanted in zip(each.group.layers, weights_of(each.run), strict=True):
            made = combine_attention_rows([step.rows[layer] for step in steps], ids.shape[-1])
            np.testing.assert_allclose(made, wanted, atol=1e-5)
