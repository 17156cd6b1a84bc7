"""Probe results of any size, as sent by a training process."""

from __future__ import annotations

import numpy as np

from visualizer.lab.attention_view.probe_result import ProbeResult

TEXT = "to be or not to be, that is the question "


def causal_weights(layers: int, heads: int, tokens: int, seed: int = 0) -> np.ndarray:
    """Draw causal weights whose rows sum to 1."""
    scores = np.random.default_rng(seed).normal(size=(layers, heads, tokens, tokens))
    scores[..., ~np.tri(tokens, dtype=bool)] = -np.inf
    powers = np.exp(2 * scores)
    weights: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return weights.astype(np.float32)


def a_reading(
    layers: int = 2,
    heads: int = 2,
    tokens: int = 8,
    step: int = 100,
    seed: int = 0,
    vocabulary: int = 20,
    attending: np.ndarray | None = None,
    cut: int = 0,
) -> ProbeResult:
    words = tuple((TEXT * (tokens // len(TEXT) + 1))[:tokens])
    logits = np.random.default_rng(seed + 1).normal(size=(tokens, vocabulary))
    weights = causal_weights(layers, heads, tokens, seed)
    return ProbeResult(step, words, logits, weights, attending, cut)
