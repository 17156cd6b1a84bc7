"""A run made of attention captured from another model, without computing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct

from visualizer.attention.captured_attention import (
    TO_WEIGHTS,
    CapturedAttention,
    CapturedVectors,
    LayerMask,
    captured_stages,
    position_labels,
    with_mask,
)
from visualizer.attention.masks import Masking, allowed_by
from visualizer.attention.model_layer_steps import ScoreBias, ScoreCap, SinkSoftmax
from visualizer.attention.run import Run
from visualizer.attention.stages import stages
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from torch import Tensor

    from visualizer.attention.model_layer_steps import LayerStep
    from visualizer.attention.spec import AttentionSpec


TOLERANCE = 1e-5
"""How far weights may be from the softmax of the scores that they are said to follow from."""
UNEXPLAINED = "The weights are as they were computed; they do not follow exactly from the scores."
NOT_UNDERSTOOD = (
    "The weights are as they were computed: the attention was also given {named}, and what that "
    "does to the scores is not known, so they are left out."
)
WITH_SINKS = (
    "Each head has a sink: a logit without a token, which takes its share of every row, so the "
    "weights of a row sum to less than 1."
)
SINKS = "sinks"
"""The name of the logits of sinks among a trace's numbers."""
UNEVEN = 0.01
"""Tolerance of a row's sum from 1, as left by 16-bit numbers."""


def captured_run(
    captured: CapturedAttention,
    query_tokens: tuple[str, ...] = (),
    key_tokens: tuple[str, ...] = (),
    previous: Run | None = None,
) -> Run:
    """Return a run of captured attention.

    Parameters
    ----------
    query_tokens, key_tokens : tuple of str
        Labels typed by the user, which replace the file's tokens.
    previous : Run, optional
        An earlier run, whose trace is reused if it has the same numbers.
    """
    keys = key_tokens or captured.key_tokens
    own = keys[-captured.queries :] if captured.is_continuation else captured.query_tokens
    queries = query_tokens or own or position_labels(captured.queries)
    if not keys:
        keys = queries if captured.is_square else position_labels(captured.keys)
    trace, notices = _kept(captured, previous) or _made(captured)
    return Run((queries,), trace, "Not computed here", notices, captured, keys)


def _kept(
    captured: CapturedAttention, previous: Run | None
) -> tuple[Trace, tuple[str, ...]] | None:
    is_same = previous is not None and previous.captured == captured
    return (previous.trace, previous.notices) if previous and is_same else None


def _made(captured: CapturedAttention) -> tuple[Trace, tuple[str, ...]]:
    whole = torch.tensor(captured.array())  # layer head query key
    axes = ("layer",)[: captured.layers - 1]
    tensor = whole if axes else whole[0]
    is_weights = not any(bool((layer < 0).any()) for layer in whole)
    found = _FoundStages({"weights" if is_weights else "scores": tensor})
    vectors = captured.vectors
    if vectors and is_weights:
        found = _around(captured, vectors, tensor)
    rows = captured_stages(
        captured.spec,
        found.tensors,
        found.tensors.keys() - found.computed,
        found.steps,
        has_other_keys=captured.has_other_keys,
    )
    held = {row.name: CachedTensor(found.tensors[row.name]) for row in rows}
    masks = vectors.layer_masks if vectors else ()
    cut = vectors.cut if vectors else ()
    trace = Trace(captured.spec, rows, {}, held, frozenset(held), axes, found.weights, masks, cut)
    return trace, (*found.notices, *_remarks(whole, is_weights=is_weights))


class _FoundStages(Struct):
    """The stages of captured attention.

    Parameters
    ----------
    tensors : dict
        By name, in any order.
    computed : frozenset of str
        Those that follow from others.
    steps : dict
        How a model computes those for which a spec has no settings.
    weights : dict
        What they are computed with.
    notices : tuple of str
        Remarks on them, as sentences.
    """

    tensors: dict[str, Tensor]
    computed: frozenset[str] = frozenset()
    steps: dict[str, LayerStep] = {}
    weights: dict[str, Tensor] = {}
    notices: tuple[str, ...] = ()


def _around(captured: CapturedAttention, vectors: CapturedVectors, weights: Tensor) -> _FoundStages:
    """Find the stages around captured weights.

    The weights stay those that were captured. They follow from the scores only where softmax
    gives them; else what stands between is left out.
    """
    queries, keys, values = (
        _own(vectors.array(name, captured), weights) for name in ("queries", "keys", "values")
    )
    found = {"queries": queries, "keys": keys, "values": values, "weights": weights}
    found["context"] = weights @ values
    if vectors.not_understood:
        named = ", ".join(f"“{each}”" for each in vectors.not_understood)
        said = NOT_UNDERSTOOD.format(named=named)
        return _FoundStages(found, frozenset({"context"}), notices=(said,))
    found["scores"] = queries @ keys.transpose(-2, -1)
    between, steps = _between(captured, vectors, found["scores"])
    whole = found | between
    last = [whole[name] for name in TO_WEIGHTS if name in whole and name != "weights"][-1]
    sinks = None
    if vectors.sinks is not None:
        sinks = _own(vectors.array("sinks", captured), weights)
        steps["weights"] = SinkSoftmax(SINKS)
    if not vectors.is_plain or not _are_softmax(last, weights, sinks):
        return _FoundStages(found, frozenset({"scores", "context"}), notices=(UNEXPLAINED,))
    computed = frozenset({*between, "scores", "weights", "context"} - {"bias"})
    if sinks is None:
        return _FoundStages(whole, computed, steps)
    kept = sinks if weights.ndim > 3 else sinks[None]  # layer head
    return _FoundStages(whole, computed, steps, {SINKS: kept}, (WITH_SINKS,))


def _own(array: np.ndarray, weights: Tensor) -> Tensor:
    """Make a tensor [layer, head, …], without the layer where there is a single one."""
    whole = torch.tensor(array)
    return whole if weights.ndim > 3 else whole[0]


def _between(
    captured: CapturedAttention, vectors: CapturedVectors, scores: Tensor
) -> tuple[dict[str, Tensor], dict[str, LayerStep]]:
    """Compute the stages between scores and weights."""
    spec = captured.spec
    names = {row.name for row in stages(spec)}
    steps: dict[str, LayerStep] = {}
    found, now = {}, scores
    if "scaled" in names:
        now = found["scaled"] = scores / spec.divisor
    if vectors.softcap:
        now = found["capped"] = vectors.softcap * torch.tanh(now / vectors.softcap)
        steps["capped"] = ScoreCap(vectors.softcap)
    if vectors.bias is not None:
        bias = _own(vectors.array("bias", captured), scores)
        found["bias"] = bias.expand(now.shape)
        now = found["biased"] = now + bias
        steps["biased"] = ScoreBias()
    if "masked" in names:
        allowed = _allowed(spec, vectors.layer_masks, scores)
        masked = found["masked"] = now.masked_fill(~allowed, -torch.inf)
        if vectors.cut:
            places = [*zip(*vectors.cut, strict=True)]  # layer head query key
            masked[tuple(places if masked.ndim == len(places) else places[1:])] = -torch.inf
    return found, steps


def _allowed(spec: AttentionSpec, masks: tuple[LayerMask, ...], scores: Tensor) -> Tensor:
    """Return which cells are allowed, [query, key] or [layer, 1, query, key]."""
    specs = [with_mask(spec, one) for one in masks] or [spec]
    queries, keys = scores.shape[-2:]
    others = None if keys == queries else keys
    each = [torch.tensor(allowed_by(Masking.of(one, "masked"), queries, others)) for one in specs]
    return torch.stack(each)[:, None] if masks else each[0]


def _are_softmax(scores: Tensor, weights: Tensor, sinks: Tensor | None) -> bool:
    """Whether softmax of scores gives weights; head by head, as all at once would fill memory.

    Parameters
    ----------
    sinks : Tensor or None
        A logit more for each row of a head, [layer, head], whose share is left out.
    """
    logits = [None] * weights.shape[:-2].numel() if sinks is None else sinks.flatten()
    parts = zip(scores.flatten(0, -3), weights.flatten(0, -3), logits, strict=True)
    return all(
        bool(((_softmax(one, sink) - other).abs() <= TOLERANCE).all()) for one, other, sink in parts
    )


def _softmax(scores: Tensor, sink: Tensor | None) -> Tensor:
    if sink is None:
        return torch.softmax(scores, -1)
    column = sink.expand(len(scores), 1)
    return torch.softmax(torch.cat([scores, column], -1), -1)[:, :-1]


def _remarks(whole: Tensor, *, is_weights: bool) -> Sequence[str]:
    said = []
    odd = sum(int(layer.isnan().sum()) for layer in whole)
    if odd:
        said.append(f"{odd:,} of {whole.numel():,} cells are no numbers (NaN).")
    if not is_weights:
        said.append("Some numbers are below 0, so they are shown as scores, not as weights.")
        return said
    sums = torch.stack([layer.sum(-1, dtype=torch.float64) for layer in whole]).flatten()
    off = (sums - 1).abs() > UNEVEN
    if off.any():
        low, high = float(sums[off].min()), float(sums[off].max())
        said.append(
            f"In {int(off.sum()):,} of {len(sums):,} rows the weights do not sum to 1: "
            f"their sums are {low:.4g} to {high:.4g}."
        )
    return said
