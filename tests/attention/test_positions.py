"""Positions within attention, compared with Bloom's linear biases and Llama's rotation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)

from visualizer.attention.attend import attend
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    PositionKind,
    Projection,
    TransformerBlockKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.explanations.explain import explain

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace

TEXT = ("Your", "journey", "starts", "with", "one", "step")
TOLERANCE = 1e-6
OWN = BooleanMatrix.from_array(np.eye(len(TEXT), dtype=bool) | np.tri(len(TEXT), k=-2, dtype=bool))
INSIDE = (PositionKind.ALIBI, PositionKind.ROTARY)
MASKS: tuple[dict[str, Any], ...] = (
    {"mask": MaskKind.NONE},
    {"mask": MaskKind.CAUSAL},
    {"mask": MaskKind.WINDOW, "window": 2},
    {"mask": MaskKind.OWN, "own_mask": OWN},
)


def a_spec(position: PositionKind, heads: int = 3, d_head: int = 4, **fields: Any) -> AttentionSpec:
    size = heads * d_head
    spec = AttentionSpec(d_in=size, d_out=size, heads=heads, position=position, device=Device.CPU)
    return replace(spec, **fields)


def weights_of_bloom(trace: Trace) -> torch.Tensor:
    """Compute Bloom's weights; its bias depends on the key only, which the softmax allows."""
    tokens, heads = trace.query_count, trace.spec.heads
    queries, keys = (trace.tensor(name)[None] for name in ("queries", "keys"))
    seen = torch.ones(1, tokens, dtype=torch.long)
    bias = build_alibi_tensor(seen, heads, queries.dtype).view(1, heads, 1, tokens)
    scores = bias + queries @ keys.mT / trace.spec.d_head**0.5
    return masked_softmax(scores, trace)


def masked_softmax(scores: torch.Tensor, trace: Trace) -> torch.Tensor:
    allowed = torch.from_numpy(trace.allowed_mask("weights", ()).copy())
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)[0]


def as_in_llama(trace: Trace) -> tuple[torch.Tensor, ...]:
    """Compute rotated queries and keys, and weights, with Llama's functions."""
    tokens, spec = trace.query_count, trace.spec
    config = LlamaConfig(
        hidden_size=spec.concatenated_head_width,
        num_attention_heads=spec.heads,
        head_dim=spec.d_head,
    )
    values = trace.tensor("values")[None]
    projected = [trace.tensor(f"projected_{name}")[None] for name in ("queries", "keys")]
    cos, sin = LlamaRotaryEmbedding(config)(values, torch.arange(tokens)[None])
    queries, keys = apply_rotary_pos_emb(*projected, cos, sin)
    allowed = torch.from_numpy(trace.allowed_mask("weights", ()).copy())
    added = torch.zeros(1, 1, tokens, tokens, dtype=values.dtype).masked_fill(~allowed, -torch.inf)
    module = SimpleNamespace(num_key_value_groups=1, training=False)
    _, weights = eager_attention_forward(
        module, queries, keys, values, added, scaling=spec.d_head**-0.5
    )
    return queries[0], keys[0], weights[0]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
def test_slopes_are_those_of_bloom_for_any_number_of_heads(heads: int) -> None:
    of_bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)[:, 0, 1]
    np.testing.assert_allclose(a_spec(PositionKind.ALIBI, heads).alibi_slopes, of_bloom, rtol=1e-6)


@pytest.mark.parametrize("mask", [mask for mask in MASKS if mask["mask"] is not MaskKind.NONE])
@pytest.mark.parametrize(("heads", "d_head"), [(1, 1), (3, 4), (4, 3)])
def test_linear_biases_give_the_weights_of_bloom(
    mask: dict[str, Any], heads: int, d_head: int
) -> None:
    trace = run((TEXT,), a_spec(PositionKind.ALIBI, heads, d_head, **mask)).trace
    torch.testing.assert_close(
        trace.tensor("weights"), weights_of_bloom(trace), rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("heads", "d_head"), [(1, 2), (3, 4), (2, 8)])
def test_rotated_queries_keys_and_weights_are_those_of_llama(
    mask: dict[str, Any], heads: int, d_head: int
) -> None:
    trace = run((TEXT,), a_spec(PositionKind.ROTARY, heads, d_head, **mask)).trace
    for name, expected in zip(("queries", "keys", "weights"), as_in_llama(trace), strict=True):
        torch.testing.assert_close(trace.tensor(name), expected, rtol=0, atol=TOLERANCE)


def test_without_a_mask_linear_biases_are_symmetric() -> None:
    bias = run((TEXT,), a_spec(PositionKind.ALIBI, mask=MaskKind.NONE)).trace.read("bias")
    np.testing.assert_array_equal(bias, bias.swapaxes(-1, -2))


@pytest.mark.parametrize("position", INSIDE)
def test_padding_changes_no_number_of_a_text(position: PositionKind) -> None:
    spec = a_spec(position, dtype=Dtype.FLOAT64)
    both, single = run((TEXT, TEXT[:3]), spec).trace, run((TEXT[:3],), spec).trace
    np.testing.assert_allclose(both.read("output")[1, :3], single.read("output"), atol=1e-12)


@pytest.mark.parametrize("position", INSIDE)
def test_kept_weights_are_scaled_weights(position: PositionKind) -> None:
    trace = run((TEXT,), a_spec(position, dropout=0.5, own_kept=OWN)).trace
    weights = np.where(OWN.to_array(), trace.read("weights") * 2, 0)
    np.testing.assert_array_equal(trace.read("dropped"), weights)


@pytest.mark.parametrize("position", INSIDE)
def test_blocks_of_a_long_text_are_parts_of_the_whole(position: PositionKind) -> None:
    spec = a_spec(position)
    whole = run((TEXT,), spec).trace
    given = whole.tensor("input")
    with torch.no_grad():
        blocks = attend(spec, given, whole.parameters, by_blocks=True)
    for name in whole.names:
        every = (slice(None),) * (len(whole.shape(name)) - 2)
        rows = [blocks.read(name, (*every, row)) for row in range(len(TEXT))]
        np.testing.assert_allclose(np.stack(rows, axis=-2), whole.read(name), atol=TOLERANCE)


@pytest.mark.parametrize("position", INSIDE)
def test_the_terms_of_every_cell_add_up_to_it(position: PositionKind) -> None:
    trace = run((TEXT,), a_spec(position, dtype=Dtype.FLOAT64)).trace
    for name in {"bias", "biased", "queries", "keys", "scores"} & {*trace.names}:
        for cell in np.ndindex(trace.shape(name)):
            found = explain(trace, name, cell)
            assert abs(float(found.terms.sum()) - found.value) < 1e-12


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({}, ("d_out", 4)),
        ({"heads": 1, "d_out": 5}, ("d_out", 6)),
        ({"projection": Projection.NONE, "d_in": 6, "heads": 2}, ("d_in", 8)),
        ({"arrangement": HeadArrangement.STACKED, "d_out": 3}, ("d_out", 4)),
        ({"d_in": 2, "block": TransformerBlockKind.PRE_NORM}, ("d_in", 4)),
    ],
)
def test_an_odd_head_size_cannot_be_rotated(
    fields: dict[str, Any], remedy: tuple[str, int]
) -> None:
    spec = replace(AttentionSpec(position=PositionKind.ROTARY), **fields)
    (problem,) = spec_problems(spec)
    assert problem.field == "position"
    assert f"must be even. It is {spec.d_head}." in problem.sentence
    assert problem.remedy == remedy
    assert not spec_problems(replace(spec, normalisation=NormalisationKind.UNIFORM))
