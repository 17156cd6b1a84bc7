"""Measures from one key per query, for long texts, agree with measures from all weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from visualizer.attention.blockwise_captured_run import (
    LayerVectors,
    LongTextAttention,
    blockwise_captured_run,
)
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.head_measures import (
    find_patterns,
    measure_patterns,
    measure_uniform_patterns,
)
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.spec import MaskKind

WORDS = ("the", "cat", "sat", "on", "the", "mat", "the", "the", "cat", "sat")
PLACES = {
    "previous": [(q, q - 1) for q in range(1, 10)],
    "first": [(q, 0) for q in range(10)],
    "own": [(q, q) for q in range(10)],
    "duplicate": [(4, 0), (6, 4), (7, 6), (8, 1), (9, 2)],
    "induction": [(4, 1), (6, 5), (7, 5), (8, 2), (9, 3)],
}


def test_pairs_of_a_text_are_those_read_off_by_hand() -> None:
    found = {
        name: [*zip(*map(list, pair), strict=True)] for name, pair in find_patterns(WORDS).items()
    }
    assert found == PLACES


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("has_sink", [False, True])
def test_means_are_those_of_the_weights(window: int, softcap: float, has_sink: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    rule = LayerMask(MaskKind.WINDOW, window=window) if window else LayerMask(MaskKind.CAUSAL)
    layers = []
    for _ in range(2):
        queries, keys, values = (
            torch.randn(heads, 10, 4, generator=generator) for heads in (4, 2, 2)
        )
        sinks = torch.randn(4, generator=generator) if has_sink else None
        scores = queries.double() @ keys.double().repeat_interleave(2, 0).mT / 2
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        distance = torch.arange(10)[:, None] - torch.arange(10)
        allowed = (distance >= 0) & (distance < (window or 10))
        sums = scores.exp().where(allowed, 0).sum(-1)
        if sinks is not None:
            sums = sums + sinks.double().exp()[:, None]
        layers.append(LayerVectors(queries, keys, values, sums.log().float(), rule, sinks))
    run = blockwise_captured_run(LongTextAttention("m", tuple(layers), WORDS, 0.5, softcap), "CPU")
    held = run.trace.cached_stage("weights")
    assert isinstance(held, BlockwiseTensor)
    assert held.can_compute_single_values
    measures = measure_patterns(held, WORDS)
    weights = run.trace.read("weights")
    uniform = measure_uniform_patterns(MaskingSpec.of(run.trace.spec), WORDS)
    alike = run.trace.allowed("weights", (0,)).astype(float)
    alike /= alike.sum(-1, keepdims=True)
    for name, places in PLACES.items():
        rows, columns = zip(*places, strict=True)
        wanted = weights[:, :, list(rows), list(columns)].mean(-1)
        np.testing.assert_allclose(getattr(measures, name), wanted, rtol=0, atol=1e-6)
        chance = alike[list(rows), list(columns)].mean()
        np.testing.assert_allclose(getattr(uniform, name), [chance], rtol=1e-12)
    assert np.isnan(measures.entropy).all()
