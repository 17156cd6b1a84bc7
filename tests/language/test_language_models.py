"""The models agree with the lecture notes, and their attention agrees with that of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch.nn import functional

from visualizer.attention.run import run
from visualizer.lab.layer_document import create_layer_document
from visualizer.language import probe as language_probe
from visualizer.language.language_models import (
    LanguageModel,
    ResidualAttentionLayer,
    build_model,
    count_layers,
)
from visualizer.language.tokenizers import TokenizerKind, Vocabulary
from visualizer.language.training_settings import LAYERED_MODELS, ModelKind, TrainingSettings
from visualizer.language.wire_format import Message

if TYPE_CHECKING:
    from torch import Tensor

TOKENS = 11
SMALL = TrainingSettings(block=8, width=12, heads=3, layers=2)
CAUSAL = [model for model in ModelKind if model is not ModelKind.AVERAGE]


def small(model: ModelKind, *, seed: int = 5, dtype: torch.dtype = torch.float32) -> LanguageModel:
    return build_model(replace(SMALL, model=model, seed=seed), TOKENS).to(dtype).eval()


def texts(rows: int = 3, length: int = 8, seed: int = 0) -> Tensor:
    return torch.randint(TOKENS, (rows, length), generator=torch.Generator().manual_seed(seed))


def peer(model: LanguageModel, ids: Tensor) -> Tensor:
    """Compute the logits from the weights of a model, with torch's own attention."""
    stream = functional.embedding(ids, model.embedding.weight)
    if model.position is not None:
        stream = stream + model.position.weight[: ids.shape[-1]]
    for layer in model.layers:
        if isinstance(layer, ResidualAttentionLayer):
            stream = stream + peer_attention(layer, layer.attention_norm(stream))
            if layer.feed_forward is not None:
                stream = stream + layer.feed_forward(stream)
        elif model.settings.model is ModelKind.AVERAGE:
            stream = stream.mean(-2, keepdim=True).expand(stream.shape)
        else:
            stream = functional.scaled_dot_product_attention(
                stream, stream, stream, is_causal=True, scale=1.0
            )
    logits: Tensor = model.projection(model.norm(stream))
    return logits


def peer_attention(layer: ResidualAttentionLayer, x: Tensor) -> Tensor:
    heads, weights = layer.attention.spec.heads, dict(layer.attention.named_parameters())
    queries, keys, values = (
        _to_heads(functional.linear(x, weights[f"{name}.weight"]), heads)
        for name in ("W_query", "W_key", "W_value")
    )
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    joined = mixed.transpose(-3, -2).flatten(-2)
    if "out_proj.weight" not in weights:
        return joined
    return functional.linear(joined, weights["out_proj.weight"], weights["out_proj.bias"])


def _to_heads(x: Tensor, heads: int) -> Tensor:
    return torch.unflatten(x, -1, (heads, x.shape[-1] // heads)).transpose(-3, -2)


def loss_of(logits: Tensor, ids: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), ids.roll(-1, -1).flatten())


def gradients(model: LanguageModel) -> dict[str, Tensor]:
    named = model.named_parameters()
    return {name: one.grad.clone() for name, one in named if one.grad is not None}


@pytest.mark.parametrize("model", ModelKind)
def test_outputs_and_gradients_agree_with_torchs_attention(model: ModelKind) -> None:
    built, ids = small(model, dtype=torch.float64), texts()
    logits = built(ids)
    torch.autograd.backward(loss_of(logits, ids))
    ours = gradients(built)
    built.zero_grad()
    other = peer(built, ids)
    torch.testing.assert_close(logits, other, rtol=1e-10, atol=1e-12)
    torch.autograd.backward(loss_of(other, ids))
    theirs = gradients(built)
    assert ours.keys() == theirs.keys() == dict(built.named_parameters()).keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(
    ("model", "rate"),
    [*((model, 0.0) for model in ModelKind), *((model, 0.4) for model in LAYERED_MODELS)],
)
def test_fused_training_gives_the_same_result(model: ModelKind, rate: float) -> None:
    built = build_model(replace(SMALL, model=model, dropout=rate), TOKENS).double().train()
    ids, found = texts(), []
    for fused in (False, True):
        torch.manual_seed(7)  # dropout draws the same masks
        built.zero_grad()
        logits = built(ids, fused=fused)
        torch.autograd.backward(loss_of(logits, ids))
        found.append({"logits": logits.detach(), **gradients(built)})
    assert found[0].keys() == found[1].keys()
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("model", ModelKind)
def test_gradients_agree_with_finite_differences(model: ModelKind, fused: bool) -> None:
    built, ids = small(model, dtype=torch.float64), texts(rows=2, length=5)
    names = [name for name, _ in built.named_parameters()]

    def loss(*weights: Tensor) -> Tensor:
        named = dict(zip(names, weights, strict=True))
        logits: Tensor = torch.func.functional_call(built, named, (ids,), {"fused": fused})
        return loss_of(logits, ids)

    weights = tuple(one.detach().requires_grad_() for one in built.parameters())
    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)


@given(
    st.sampled_from(CAUSAL),
    st.integers(0, 2**20),
    st.integers(1, 7),
    st.lists(st.integers(0, TOKENS - 1), min_size=8, max_size=8),
)
def test_causal_models_do_not_see_later_tokens(
    model: ModelKind, seed: int, place: int, later: list[int]
) -> None:
    built, ids = small(model, seed=seed), texts(rows=1, seed=seed)
    changed = ids.clone()
    changed[:, place:] = torch.tensor(later)[place:]
    with torch.no_grad():
        before, after = built(ids), built(changed)
    assert torch.equal(before[:, :place], after[:, :place])


@given(st.integers(0, 2**20), st.integers(0, 6))
def test_the_average_sees_later_tokens(seed: int, place: int) -> None:
    built, ids = small(ModelKind.AVERAGE, seed=seed), texts(rows=1, seed=seed)
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % TOKENS
    with torch.no_grad():
        assert not torch.equal(built(ids)[:, place], built(changed)[:, place])


@pytest.mark.parametrize("model", ModelKind)
def test_traces_contain_what_the_model_computes(model: ModelKind) -> None:
    built, ids = small(model), texts()
    logits, traces = built.forward_with_traces(ids)
    assert torch.equal(logits, built(ids))
    assert len(traces) == count_layers(built.settings)
    for trace in traces:
        weights = trace.read("weights")
        assert weights.shape == (3, trace.spec.heads, 8, 8)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        if model is not ModelKind.AVERAGE:
            assert not np.triu(weights, 1).any()


@pytest.mark.parametrize("model", [model for model in ModelKind if model is not ModelKind.BIGRAM])
def test_a_layer_can_be_recomputed_by_the_program(model: ModelKind) -> None:
    built = small(model)
    vocabulary = Vocabulary(tuple("abcdefghijk"))
    probe = language_probe.ProbeText.from_text("badcafe", vocabulary, built)
    _, traces = built.forward_with_traces(probe.ids)
    for number, trace in enumerate(traces):
        values, arrays = language_probe.layer_attention_inputs(built, probe, number)
        said = {"spec": values, "tokens": probe.tokens, "layer": number, "step": 1}
        answer = Message("layer", said, arrays)
        spec = create_layer_document(answer, TokenizerKind.CHARACTERS).document.spec
        anew = run((probe.tokens,), spec).trace
        assert set(anew.names) >= {"input", "weights", "context"}
        for stage in anew.names:
            np.testing.assert_allclose(
                anew.read(stage), trace.read(stage), rtol=2e-5, atol=2e-6, err_msg=stage
            )


@pytest.mark.parametrize("model", LAYERED_MODELS)
def test_dropout_drops_only_in_training(model: ModelKind) -> None:
    built = build_model(replace(SMALL, model=model, dropout=0.5), TOKENS)
    ids = texts()
    assert torch.equal(built.eval()(ids), built(ids))
    built.train()
    assert not torch.equal(built(ids), built(ids))


def test_initializing_a_model_does_not_affect_other_random_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one = build_model(SMALL, TOKENS)
    assert torch.equal(torch.rand(2), expected)
    other = build_model(SMALL, TOKENS)
    for mine, yours in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, yours)


def test_a_long_text_is_cut_at_the_beginning() -> None:
    model = build_model(replace(SMALL, model=ModelKind.TRANSFORMER, block=4), 3)
    vocabulary = Vocabulary(("a", "b", "c"), TokenizerKind.CHARACTERS)
    probe = language_probe.ProbeText.from_text("abcabcb", vocabulary, model)
    assert (probe.tokens, probe.cut) == (("a", "b", "c", "b"), 3)
    assert probe.ids.tolist() == [0, 1, 2, 1]
    probe = language_probe.ProbeText.from_text("cab", vocabulary, model)
    assert (probe.tokens, probe.cut) == (("c", "a", "b"), 0)
