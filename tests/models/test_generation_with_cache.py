"""A text is continued as transformers does, and the rows read are those of a single pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError, Model
from visualizer.language.sampling import Sampling
from visualizer.models.generation_with_cache import generate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
TEXT = "the cat sat on the mat"
WINDOWED = ("mistral", "gemma2", "gpt_oss")
KINDS = ("llama", "gpt2", "qwen3", "mistral", "gemma2", "gpt_oss", "deepseek_v3", "opt")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    kind, sizes = str(request.param), {}
    if kind not in WINDOWED:  # else the cache would have a window that the layers have not
        sizes = {"sliding_window": None}
    folder = tmp_path_factory.mktemp("models") / kind
    return visualizer.open_model(save_tiny_model(folder, kind, **sizes))


def test_the_text_is_that_of_greedy_sampling(model: Model) -> None:
    given = model.opened.tokenizer(TEXT, return_tensors="pt")
    settings: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}
    with torch.no_grad():
        wanted = model.opened.model.generate(**given, **settings)[0]
    made = model.generate(TEXT, 12)
    assert list(made.tokens) == [model.opened.token(int(number)) for number in wanted]
    assert made.start == given["input_ids"].shape[-1]
    assert len(made.probabilities) == len(made.tokens) - made.start


def test_the_rows_are_those_of_one_pass(model: Model) -> None:
    made = model.generate(TEXT, 12)
    opened = model.opened
    given = opened.tokenizer(TEXT, return_tensors="pt")
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


def test_the_same_seed_draws_the_same(model: Model) -> None:
    made, again, other = (
        model.generate(TEXT, 8, temperature=1.5, top_k=20, top_p=0.9, seed=seed)
        for seed in (1, 1, 2)
    )
    assert made.tokens == again.tokens
    assert made.tokens != other.tokens


def test_what_cannot_be_is_said(model: Model) -> None:
    with pytest.raises(InputError, match="tokens is from 1 to 10,000, and not 0"):
        model.generate(TEXT, 0)
    with pytest.raises(InputError, match="The temperature is from 0"):
        model.generate(TEXT, temperature=-1)
    with pytest.raises(InputError, match="nothing to read"):
        model.generate(" ")


def test_models_without_a_cache_that_can_be_read_are_refused(tmp_path: Path) -> None:
    model = visualizer.open_model(save_tiny_model(tmp_path / "bloom", "bloom"))
    with pytest.raises(InputError, match="keeps no keys and values that could be read"):
        model.generate(TEXT, 3)


def test_what_is_told_is_the_text(model: Model) -> None:
    told: list[str] = []
    made = generate(model.opened, TEXT, 6, Sampling(0.0), told=told.append)
    numbers = model.opened.tokenizer(TEXT)["input_ids"]
    before = model.opened.tokenizer.decode(numbers, clean_up_tokenization_spaces=False)
    assert len(told) <= 6
    assert (before + "".join(told)).startswith(before)
    assert "".join(told).strip().startswith(made.text.strip().split(" ")[0])
