"""Tests of how edited heads change the next token, and that ablations resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

import visualizer
from tests.support.examples import others_slow
from tests.support.head_hooks import contexts, head, run_plain
from tests.support.tiny_models import VOCABULARY, save_tiny_model
from visualizer import InputError, Model
from visualizer.models import head_edits
from visualizer.models.head_edits import (
    MAX_COMPARED_TOKENS,
    check_equal_token_counts,
    compute_ablation_changes,
)
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from tests.support.head_hooks import ContextEdit
    from visualizer.attention.model_forward_pass import AblationResult


pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT, OTHER = "the cat sat on the mat the cat", "a dog ran to a log the dog"
KINDS = ("llama", "gpt2", "gpt_oss")
HEADS = [(0, 1), (0, 2), (1, 0)]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    kind = str(request.param)
    return visualizer.open_model(save_tiny_model(tmp_path_factory.mktemp("models") / kind, kind))


@pytest.fixture(scope="module")
def llama(tiny_model_folder: Path) -> Model:
    return visualizer.open_model(tiny_model_folder)


def predict(model: Model, edit: ContextEdit = lambda _, context: context) -> torch.Tensor:
    """Return the next-token probabilities of the plain model with edited context vectors."""
    return run_plain(model, TEXT, edit)[0]


def assert_predicts(found: list[tuple[str, float]], wanted: torch.Tensor) -> None:
    assert [share for _, share in found] == pytest.approx(sorted(wanted.tolist())[::-1], abs=1e-7)


def test_the_most_likely_tokens_are_those_of_the_plain_model(model: Model) -> None:
    expected = predict(model)
    found = model.next_tokens(TEXT, VOCABULARY)
    assert_predicts(found, expected)
    assert found[0][0] == model.opened.token_text(int(expected.argmax()))


def test_ablated_heads_contribute_nothing(model: Model) -> None:
    def ablate(layer: int, context: torch.Tensor) -> torch.Tensor:
        for at, number in HEADS:
            if at == layer:
                head(context, number)[:] = 0
        return context

    found = model.ablate(TEXT, HEADS, most=VOCABULARY)
    assert_predicts(found, predict(model, ablate))
    unedited = model.next_tokens(TEXT, VOCABULARY)
    assert unedited != found
    assert_predicts(unedited, predict(model))


def test_a_patched_head_outputs_its_vectors_from_the_other_text(model: Model) -> None:
    source = contexts(model, OTHER)

    def patch(layer: int, context: torch.Tensor) -> torch.Tensor:
        for at, number in HEADS:
            if at == layer:
                head(context, number)[:] = head(source[layer], number)
        return context

    found = model.patch(TEXT, OTHER, HEADS, most=VOCABULARY)
    assert_predicts(found, predict(model, patch))
    assert found != model.next_tokens(TEXT, VOCABULARY)


def test_mean_ablation_replaces_a_head_with_its_mean(model: Model) -> None:
    def to_mean(layer: int, context: torch.Tensor) -> torch.Tensor:
        if layer == 0:
            head(context, 1)[:] = head(context, 1).mean(1, keepdim=True)
        return context

    found = model.ablate(TEXT, [(0, 1)], mean=True, most=VOCABULARY)
    assert_predicts(found, predict(model, to_mean))


def test_patching_from_the_same_text_changes_nothing(model: Model) -> None:
    every = [(layer, head) for layer in range(2) for head in range(4)]
    assert_predicts(model.patch(TEXT, TEXT, every, most=VOCABULARY), predict(model))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"heads": [(2, 0)]}, "Head 0 of layer 2 does not exist."),
        ({"heads": [(2, 0)], "mean": True}, "Head 0 of layer 2 does not exist."),
        ({"heads": [(0, 4)]}, "Head 4 of layer 0 does not exist."),
        ({"heads": [(0, -1)]}, "Head -1 of layer 0 does not exist."),
        (
            {"heads": [3]},
            "heads must be a list of (layer, head) pairs, such as [(5, 1)]. It is [3].",
        ),
        ({"heads": 3}, "heads must be a list of (layer, head) pairs, such as [(5, 1)]. It is 3."),
        ({"heads": [(0, 0)], "most": 0}, "`most` must be from 1 to 331. It is 0."),
    ],
)
def test_invalid_heads_and_counts_are_rejected(
    llama: Model, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        llama.ablate(TEXT, **given)
    assert caught.value.sentence == sentence


def test_invalid_patches_are_rejected(llama: Model) -> None:
    with pytest.raises(InputError, match="the text to patch from has 3\\. Use texts with the same"):
        llama.patch(TEXT, "the cat", [(0, 0)])
    with pytest.raises(InputError, match="Head 4 of layer 1 does not exist"):
        llama.patch(TEXT, OTHER, [(1, 4)])


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


def test_heads_of_models_with_their_own_attention_cannot_be_ablated(tmp_path: Path) -> None:
    bloom = visualizer.open_model(save_tiny_model(tmp_path / "bloom", "bloom"))
    assert bloom.next_tokens(TEXT)
    with pytest.raises(InputError, match="cannot be edited"):
        bloom.ablate(TEXT, [(0, 0)])


@pytest.mark.parametrize("kind", others_slow(["llama", "gpt2", "opt", "gemma2", "mixtral"]))
@pytest.mark.parametrize("most", others_slow([20, 512, 1]))
def test_batched_ablations_equal_single_ablations(
    tmp_path: Path, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_edits, "MAX_BATCH_TOKENS", most)
    opened = visualizer.open_model(save_tiny_model(tmp_path / kind, kind)).opened
    for edits in ({}, {(0, 2): 0.0}):
        before = opened.next_token_log_probabilities(TEXT, edits)
        number = int(before.argmax())
        answer = compute_ablation_changes(opened, TEXT, None, edits)
        assert answer.is_complete
        assert (answer.token, answer.layers) == (opened.token_text(number), (0, 1))
        for place in np.ndindex(2, 4):
            after = opened.next_token_log_probabilities(TEXT, {**edits, place: 0.0})
            wanted = float(after[number] - before[number])
            assert answer.changes[place] == pytest.approx(wanted, abs=2e-6)
    assert answer.changes[0, 2] == pytest.approx(0, abs=2e-6)  # this head was already ablated


def test_a_cancelled_ablation_resumes_where_it_stopped(llama: Model) -> None:
    whole = compute_ablation_changes(llama.opened, TEXT, "mat")
    seen: list[AblationResult] = []

    def stop_at_second_layer(done: int, of: int) -> None:
        assert of == 8
        if done >= 4:
            raise CancelledError

    with pytest.raises(CancelledError):
        compute_ablation_changes(
            llama.opened, TEXT, "mat", progress=stop_at_second_layer, report=seen.append
        )
    (part,) = seen
    assert (part.measured_heads, part.is_complete) == (4, False)
    marked = replace(part, changes=np.where(np.isnan(part.changes), np.nan, 5.0))
    rest = compute_ablation_changes(llama.opened, TEXT, "mat", known=marked)
    assert (rest.changes[0] == 5).all()  # known values are not recomputed
    np.testing.assert_allclose(rest.changes[1], whole.changes[1], atol=1e-6)
