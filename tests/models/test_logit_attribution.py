"""Tests direct logit attribution and the logit lens against plain hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import visualizer
from tests.support.examples import others_slow
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError, Model
from visualizer.models.logit_attribution import logit_lens
from visualizer.progress import CancelledError, cancel_when

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat the cat"
KINDS = ("llama", "gpt2", "opt", "gpt_neox", "phi", "mixtral", "olmo", "qwen3", "mistral")
CHANGED = ("gemma2", "olmo2", "gemma3_text")
"""Architectures with a norm between the attention output and the residual stream."""


def opened(folder: Path, kind: str) -> Model:
    return visualizer.open_model(save_tiny_model(folder / kind, kind))


@pytest.mark.parametrize("kind", others_slow(KINDS, 7))
def test_the_parts_sum_to_the_logit(tmp_path: Path, kind: str) -> None:
    model = opened(tmp_path, kind)
    ids = tokenizer_of(model.opened)(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model.opened.model(ids).logits[0, -1]
    likeliest = model.logit_parts(TEXT)
    assert likeliest.number == int(logits.argmax())
    for token in ("mat", "dog"):
        parts = model.logit_parts(TEXT, token)
        wanted = float(logits[parts.number])
        assert parts.logit == pytest.approx(wanted, abs=1e-6)
        whole = parts.heads.sum() + parts.rest.sum() + parts.embedding + parts.bias
        assert whole == pytest.approx(wanted, abs=2e-6)
        assert parts.heads.shape == (2, 4)


def test_the_part_of_a_head_matches_a_manual_computation(tmp_path: Path) -> None:
    model = opened(tmp_path, "llama")
    plain = model.opened.model.double()
    ids = tokenizer_of(model.opened)(TEXT, return_tensors="pt")["input_ids"]
    contexts: dict[int, torch.Tensor] = {}
    streams: list[torch.Tensor] = []
    hooks = [
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda _, given, at=at: contexts.__setitem__(at, given[0][0, -1])
        )
        for at, layer in enumerate(plain.model.layers)
    ]
    hooks += [plain.model.norm.register_forward_pre_hook(lambda _, given: streams.append(given[0]))]
    with torch.no_grad():
        logits = plain(ids).logits[0, -1]
    for hook in hooks:
        hook.remove()
    number = int(logits.argmax())
    stream = streams[0][0, -1]
    size = (stream.square().mean() + plain.config.rms_norm_eps).rsqrt()
    direction = plain.lm_head.weight[number] * plain.model.norm.weight * size
    found = model.logit_parts(TEXT)
    assert found.number == number
    for layer, head in np.ndindex(2, 4):
        part = slice(8 * head, 8 * (head + 1))
        matrix = plain.model.layers[layer].self_attn.o_proj.weight[:, part]
        wanted = float(direction @ (matrix @ contexts[layer][part]))
        assert found.heads[layer, head] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kind", CHANGED)
def test_models_with_a_norm_after_attention_are_rejected(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="the attention output is changed before it is added"):
        opened(tmp_path, kind).logit_parts(TEXT)


def test_a_text_of_several_tokens_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="“the cat” into 2 tokens"):
        opened(tmp_path, "llama").logit_parts(TEXT, "the cat")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3_text"])
def test_the_lens_after_the_last_layer_is_the_prediction_of_the_model(
    tmp_path: Path, kind: str
) -> None:
    model = opened(tmp_path, kind)
    lens = model.logit_lens(TEXT, most=3)
    ids = tokenizer_of(model.opened)(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        shares = model.opened.model(ids).logits[0].softmax(-1)
        assert len(lens) == 2
    assert len(lens[-1]) == len(shares) == ids.shape[-1]
    for found, wanted in zip(lens[-1], shares, strict=True):
        best = wanted.topk(3)
        assert [token for token, _ in found] == [
            model.opened.token_text(int(at)) for at in best.indices
        ]
        assert [share for _, share in found] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert lens[0] != lens[-1]


def test_the_lens_can_be_cancelled_between_layers(tmp_path: Path) -> None:
    done: list[int] = []
    with cancel_when(lambda: bool(done)), pytest.raises(CancelledError):
        logit_lens(opened(tmp_path, "llama").opened, TEXT, progress=lambda at, of: done.append(at))
    assert done == [0]


def test_an_encoder_has_no_next_token(tmp_path: Path) -> None:
    encoder = opened(tmp_path, "bert")
    for act in (encoder.next_tokens, encoder.logit_parts, encoder.logit_lens, encoder.generate):
        with pytest.raises(InputError, match="does not generate text"):
            act(TEXT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("cohere", "its logits are scaled or capped after the unembedding"),
        pytest.param(
            *("gemma3n_text", "its layers do not output one vector per token"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_models_with_unsupported_logits_are_rejected(tmp_path: Path, kind: str, why: str) -> None:
    model = opened(tmp_path, kind)
    with pytest.raises(InputError, match=why):
        model.logit_lens(TEXT)
    with pytest.raises(InputError, match=why):
        model.logit_parts(TEXT)
