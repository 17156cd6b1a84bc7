"""Tests that ablated heads change the next token in the same way as plain hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import VOCABULARY, save_tiny_model
from visualizer import InputError, Model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat the cat"
OUTPUTS = {"llama": "self_attn.o_proj", "gpt2": "attn.c_proj", "gpt_oss": "self_attn.o_proj"}
"""Output projections: modules that receive the context vectors of all heads."""


@pytest.fixture(scope="module", params=OUTPUTS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    kind = str(request.param)
    return visualizer.open_model(save_tiny_model(tmp_path_factory.mktemp("models") / kind, kind))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return visualizer.open_model(save_tiny_model(tmp_path_factory.mktemp("models") / "e", "bert"))


def by_hooks(model: Model, off: set[tuple[int, int]]) -> torch.Tensor:
    """Return the log-probabilities of the plain model with zeros for the given heads."""
    plain = model.opened.model
    ending = OUTPUTS[model.opened.folder.kind]
    modules = [module for name, module in plain.named_modules() if name.endswith(ending)]
    hooks = [
        module.register_forward_pre_hook(_zeroing({head for at, head in off if at == layer}))
        for layer, module in enumerate(modules)
    ]
    ids = tokenizer_of(model.opened)(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits: torch.Tensor = plain(ids).logits[0, -1]
    for hook in hooks:
        hook.remove()
    logs: torch.Tensor = logits.double().log_softmax(-1)
    return logs


def _zeroing(heads: set[int]) -> Any:
    def zero(module: object, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        context = given[0].clone()
        size = context.shape[-1] // 4
        for head in heads:
            context[..., head * size : (head + 1) * size] = 0
        return (context, *given[1:])

    return zero


def test_the_most_likely_tokens_are_those_of_the_plain_model(model: Model) -> None:
    expected = by_hooks(model, set()).exp()
    found = model.next_tokens(TEXT, VOCABULARY)
    assert [value for _, value in found] == pytest.approx(sorted(expected.tolist())[::-1], abs=1e-7)
    assert sum(value for _, value in found) == pytest.approx(1)
    assert found[0][0] == model.opened.token_text(int(expected.argmax()))


@pytest.mark.parametrize("off", [{(0, 0)}, {(1, 3)}, {(0, 1), (0, 2), (1, 0)}])
def test_ablated_heads_contribute_nothing(model: Model, off: set[tuple[int, int]]) -> None:
    expected = by_hooks(model, off).exp()
    found = model.ablate(TEXT, [*off], most=VOCABULARY)
    assert [value for _, value in found] == pytest.approx(sorted(expected.tolist())[::-1], abs=1e-7)
    assert model.next_tokens(TEXT, VOCABULARY) != found
    before = model.next_tokens(TEXT, VOCABULARY)
    assert [value for _, value in before] == pytest.approx(
        sorted(by_hooks(model, set()).exp().tolist())[::-1], abs=1e-7
    )


def test_the_changes_of_all_heads_equal_those_of_each_head_alone(model: Model) -> None:
    changes = model.ablations(TEXT)
    assert changes.shape == (2, 4)
    plain = by_hooks(model, set())
    likeliest = int(plain.argmax())
    for layer, head in np.ndindex(2, 4):
        alone = by_hooks(model, {(layer, head)})
        assert changes[layer, head] == pytest.approx(
            float(alone[likeliest] - plain[likeliest]), abs=1e-6
        )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"heads": [(2, 0)]}, "Head 0 of layer 2 does not exist."),
        ({"heads": [(0, 4)]}, "Head 4 of layer 0 does not exist."),
        ({"heads": [(0, -1)]}, "Head -1 of layer 0 does not exist."),
        ({"heads": [3]}, "heads must be a list of (layer, head), such as [(5, 1)]. It is [3]."),
        ({"heads": 3}, "heads must be a list of (layer, head), such as [(5, 1)]. It is 3."),
        ({"heads": [(0, 0)], "most": 0}, "most must be at least 1 and at most 331. It is 0."),
    ],
)
def test_invalid_heads_and_counts_are_rejected(
    model: Model, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        model.ablate(TEXT, **given)
    assert caught.value.sentence == sentence


def test_an_encoder_has_no_next_token(encoder: Model) -> None:
    with pytest.raises(InputError, match="does not generate text"):
        encoder.next_tokens(TEXT)


def test_heads_of_models_with_their_own_attention_cannot_be_ablated(tmp_path: Path) -> None:
    bloom = visualizer.open_model(save_tiny_model(tmp_path / "bloom", "bloom"))
    assert bloom.next_tokens(TEXT)
    with pytest.raises(InputError, match="cannot be edited"):
        bloom.ablate(TEXT, [(0, 0)])
