"""Tests that generation matches transformers, and that its rows match those of one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import WORDLESS, save_tiny_model
from visualizer import InputError, Model
from visualizer.language.sampling import SamplingSettings
from visualizer.models.kv_cache_generation import (
    NextTokenPredictor,
    combine_attention_rows,
    generate,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat"
WINDOWED = ("mistral", "gemma2", "gpt_oss")
KINDS = ("llama", "gpt2", "qwen3", "mistral", "gemma2", "gpt_oss", "deepseek_v3", "opt")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    kind, sizes = str(request.param), {}
    if kind not in WINDOWED:  # otherwise, only the cache would have a window
        sizes = {"sliding_window": None}
    folder = tmp_path_factory.mktemp("models") / kind
    return visualizer.open_model(save_tiny_model(folder, kind, **sizes))


def test_the_text_is_that_of_greedy_sampling(model: Model) -> None:
    given = tokenizer_of(model.opened)(TEXT, return_tensors="pt")
    settings: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}
    with torch.no_grad():
        wanted = model.opened.model.generate(**given, **settings)[0]
    made = model.generate(TEXT, 12)
    assert list(made.tokens) == [model.opened.token_text(int(number)) for number in wanted]
    assert made.start == given["input_ids"].shape[-1]
    assert len(made.probabilities) == len(made.tokens) - made.start


@pytest.mark.slow
def test_the_rows_equal_those_of_one_pass(model: Model) -> None:
    made = model.generate(TEXT, 12)
    opened = model.opened
    given = tokenizer_of(opened)(TEXT, return_tensors="pt")
    with torch.no_grad():
        ids = opened.model.generate(**given, max_new_tokens=12, do_sample=False)[:, :-1]
    with visualizer.capture(opened.model) as seen, torch.no_grad():
        opened.model(ids)
    for layer, found in zip(made.layers, made.weights, strict=True):
        attention = seen.attention(layer)
        at = next(
            each.group.layers.index(layer) for each in seen.runs if layer in each.group.layers
        )
        whole = attention["weights"]
        wanted = whole[at] if attention.run.trace.axes else whole
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert made.cache_bytes > 0


@pytest.mark.slow
def test_the_same_seed_generates_the_same_text(model: Model) -> None:
    made, again, other = (
        model.generate(TEXT, 8, temperature=1.5, top_k=20, top_p=0.9, seed=seed)
        for seed in (1, 1, 2)
    )
    assert made.tokens == again.tokens
    assert made.tokens != other.tokens


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_invalid_generation_settings_are_rejected(model: Model) -> None:
    with pytest.raises(InputError, match=r"tokens must be at least 1 and at most 10,000\. It is 0"):
        model.generate(TEXT, 0)
    with pytest.raises(InputError, match="The temperature must be at least 0"):
        model.generate(TEXT, temperature=-1)
    with pytest.raises(InputError, match="The text is empty"):
        model.generate(" ")


def test_models_without_a_usable_cache_are_rejected(tmp_path: Path) -> None:
    model = visualizer.open_model(save_tiny_model(tmp_path / "bloom", "bloom"))
    with pytest.raises(InputError, match="does not support a key/value cache"):
        model.generate(TEXT, 3)


@pytest.mark.parametrize("model", ["llama"], indirect=True)
def test_the_reported_pieces_form_the_generated_text(model: Model) -> None:
    told: list[str] = []
    made = generate(model.opened, TEXT, 6, SamplingSettings(0.0), report_text=told.append)
    numbers = tokenizer_of(model.opened)(TEXT)["input_ids"]
    before = tokenizer_of(model.opened).decode(numbers, clean_up_tokenization_spaces=False)
    assert len(told) <= 6
    assert (before + "".join(told)).startswith(before)
    assert "".join(told).strip().startswith(made.text.strip().split(" ")[0])


def test_a_branch_is_independent_of_other_branches(model: Model) -> None:
    opened = model.opened
    first, second = [5, 9, 6, 12, 7], [5, 9, 11, 4]
    reader = NextTokenPredictor(opened, TEXT)
    for count in range(len(first) + 1):
        reader.predict(first[:count])
    steps = [reader.predict(second[:count]) for count in (0, 1, 2, 3, 4)]  # starts after the text
    given = tokenizer_of(opened)(TEXT, return_tensors="pt")["input_ids"]
    ids = torch.cat([given, torch.tensor([second])], -1)
    with visualizer.capture(opened.model) as seen, torch.no_grad():
        logits = opened.model(ids).logits[0].double().numpy()
    for count, step in enumerate(steps):
        last = given.shape[-1] + count - 1
        np.testing.assert_allclose(step.logits, logits[last], atol=1e-5)
    for run in seen.runs:
        for at, layer in enumerate(run.group.layers):
            made = combine_attention_rows([step.rows[layer] for step in steps], ids.shape[-1])
            whole = run.run.trace.read("weights")
            wanted = whole[at] if run.run.trace.axes else whole
            np.testing.assert_allclose(made, wanted, atol=1e-5)
    assert steps[-1].tokens == ids.shape[-1]


def test_ablated_heads_stay_ablated_during_generation(tmp_path: Path) -> None:
    opened = visualizer.open_model(save_tiny_model(tmp_path / "llama", sliding_window=None)).opened
    off = {(0, 1): 0.0, (1, 2): 0.0}
    reader, numbers = NextTokenPredictor(opened, TEXT, off), [5, 9, 6]
    for count in range(len(numbers) + 1):
        found = reader.predict(numbers[:count]).logits
        text = " ".join([TEXT, *(opened.token_text(number) for number in numbers[:count])])
        wanted = opened.next_token_log_probabilities(text, off).exp().numpy()
        np.testing.assert_allclose(np.exp(found) / np.exp(found).sum(), wanted, atol=1e-6)
    plain = NextTokenPredictor(opened, TEXT).predict(numbers).logits
    assert np.abs(plain - found).max() > 1e-3


def test_continued_text_reports_whether_its_tokens_are_the_same(tmp_path: Path) -> None:
    opened = visualizer.open_model(save_tiny_model(tmp_path / "llama", sliding_window=None)).opened
    reader = NextTokenPredictor(opened, TEXT)
    assert reader.continued_text([5, 9]) == (f"{TEXT} cat dog", True)
    assert reader.continued_text([WORDLESS])[1] is False  # an id without a token
