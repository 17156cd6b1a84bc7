"""Tests that patching and mean ablation change the same values as plain hooks do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import visualizer
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import VOCABULARY, save_tiny_model
from visualizer import InputError, Model
from visualizer.models import head_edits
from visualizer.models.head_edits import MAX_COMPARED_TOKENS, check_equal_token_counts

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT, OTHER = "the cat sat on the mat the cat", "a dog ran to a log the dog"
ENDINGS = {"llama": "self_attn.o_proj", "gpt2": "attn.c_proj"}
SIZE = 8


@pytest.fixture(scope="module", params=ENDINGS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    kind = str(request.param)
    return visualizer.open_model(save_tiny_model(tmp_path_factory.mktemp("models") / kind, kind))


def outputs(model: Model) -> list[Any]:
    ending = ENDINGS[model.opened.folder.kind]
    named = model.opened.model.named_modules()
    return [module for name, module in named if name.endswith(ending)]


def run(model: Model, text: str, edit: Callable[[int, torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return the probabilities of the plain model with edited inputs of the output projections."""

    def hooked(layer: int) -> Callable[..., Any]:
        return lambda _, given: (edit(layer, given[0].clone()), *given[1:])

    hooks = [each.register_forward_pre_hook(hooked(at)) for at, each in enumerate(outputs(model))]
    ids = tokenizer_of(model.opened)(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        shares: torch.Tensor = model.opened.model(ids).logits[0, -1].double().softmax(-1)
    for hook in hooks:
        hook.remove()
    return shares


def contexts(model: Model, text: str) -> dict[int, torch.Tensor]:
    kept: dict[int, torch.Tensor] = {}

    def keep(layer: int, given: torch.Tensor) -> torch.Tensor:
        kept[layer] = given
        return given

    run(model, text, keep)
    return kept


@pytest.mark.parametrize("heads", [[(0, 0)], [(1, 3)], [(0, 1), (0, 2), (1, 0)]])
def test_a_patched_head_outputs_its_vectors_from_the_other_text(
    model: Model, heads: list[tuple[int, int]]
) -> None:
    source = contexts(model, OTHER)

    def patch(layer: int, given: torch.Tensor) -> torch.Tensor:
        for at, head in heads:
            if at == layer:
                part = slice(SIZE * head, SIZE * (head + 1))
                given[..., part] = source[layer][..., part]
        return given

    wanted = run(model, TEXT, patch)
    found = model.patch(TEXT, OTHER, heads, most=VOCABULARY)
    assert [share for _, share in found] == pytest.approx(sorted(wanted.tolist())[::-1], abs=1e-7)
    assert found != model.next_tokens(TEXT, VOCABULARY)


def test_mean_ablation_replaces_a_head_with_its_mean(model: Model) -> None:
    def to_mean(layer: int, given: torch.Tensor) -> torch.Tensor:
        if layer == 0:
            given[..., SIZE : 2 * SIZE] = given[..., SIZE : 2 * SIZE].mean(1, keepdim=True)
        return given

    wanted = run(model, TEXT, to_mean)
    found = model.ablate(TEXT, [(0, 1)], mean=True, most=VOCABULARY)
    assert [share for _, share in found] == pytest.approx(sorted(wanted.tolist())[::-1], abs=1e-7)


def test_patching_from_the_same_text_changes_nothing(model: Model) -> None:
    every = [(layer, head) for layer in range(2) for head in range(4)]
    found = model.patch(TEXT, TEXT, every, most=VOCABULARY)
    plain = model.next_tokens(TEXT, VOCABULARY)
    assert [share for _, share in found] == pytest.approx([share for _, share in plain], abs=1e-7)


def test_invalid_patches_are_rejected(model: Model) -> None:
    with pytest.raises(InputError, match="the text to patch from has 3\\. Use texts with the same"):
        model.patch(TEXT, "the cat", [(0, 0)])
    with pytest.raises(InputError, match="Head 4 of layer 1 does not exist"):
        model.patch(TEXT, OTHER, [(1, 4)])
    with pytest.raises(InputError, match="Head 0 of layer 2 does not exist"):
        model.ablate(TEXT, [(2, 0)], mean=True)


def test_differences_between_very_long_texts_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def given(text: str) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
        return {}, tuple(text.split()), ()

    short, long = "cat " * MAX_COMPARED_TOKENS, "cat " * (MAX_COMPARED_TOKENS + 1)
    with pytest.raises(InputError, match=r"number of tokens\. Differences: nothing → “cat”"):
        check_equal_token_counts(given, "cat " * 9, "cat " * 10)
    monkeypatch.delattr(head_edits, "SequenceMatcher")  # takes minutes for such texts
    with pytest.raises(InputError, match=r"2,001 tokens.* 2,000\. .* number of tokens\.$"):
        check_equal_token_counts(given, long, short)
