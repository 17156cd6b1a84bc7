"""A run made of attention captured from another model, without computing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.captured_attention import (
    CapturedAttention,
    CapturedVectors,
    LayerMask,
    captured_stages,
    position_labels,
    with_mask,
)
from visualizer.attention.masks import Masking, allowed_by
from visualizer.attention.run import Run
from visualizer.attention.stages import stages
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from visualizer.attention.spec import AttentionSpec


TOLERANCE = 1e-5
"""How far weights may be from the softmax of the scores that they are said to follow from."""
UNEXPLAINED = "The weights are as they were computed; they do not follow exactly from the scores."
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
    queries = query_tokens or captured.query_tokens or position_labels(captured.queries)
    keys = key_tokens or captured.key_tokens
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
    tensors, computed = {"weights" if is_weights else "scores": tensor}, frozenset[str]()
    if captured.vectors and is_weights:
        tensors, computed = _around(captured, captured.vectors, tensor)
    spec = captured.spec
    names = [row.name for row in stages(spec) if row.name in tensors] or [*tensors]
    rows = captured_stages(spec, names, {*names} - computed)
    held = {name: CachedTensor(tensors[name]) for name in names}
    masks = captured.vectors.layer_masks if captured.vectors else ()
    trace = Trace(spec, rows, {}, held, frozenset(held), axes, None, masks)
    remarks = _remarks(whole, is_weights=is_weights)
    if captured.vectors and "weights" not in computed:
        remarks = [UNEXPLAINED, *remarks]
    return trace, tuple(remarks)


def _around(
    captured: CapturedAttention, vectors: CapturedVectors, weights: Tensor
) -> tuple[dict[str, Tensor], frozenset[str]]:
    """Return the stages around captured weights, and the names of those that were computed.

    The weights stay those that were captured. They follow from the scores only where softmax
    gives them; else what stands between is left out.
    """
    sizes = (*weights.shape[:-1], -1)  # layer head token d_head, without the layer of a single one
    queries, keys, values = (
        torch.tensor(vectors.array(name, captured)).reshape(sizes)
        for name in ("queries", "keys", "values")
    )
    scores = queries @ keys.transpose(-2, -1)
    found = {"queries": queries, "keys": keys, "values": values, "scores": scores}
    found |= {"weights": weights, "context": weights @ values}
    between = _between(captured.spec, vectors.layer_masks, scores)
    last = next(reversed(between.values()), scores)
    if vectors.is_plain and _are_softmax(last, weights):
        return found | between, frozenset({*between, "scores", "weights", "context"})
    return found, frozenset({"scores", "context"})


def _between(
    spec: AttentionSpec, masks: tuple[LayerMask, ...], scores: Tensor
) -> dict[str, Tensor]:
    """Compute the stages between scores and weights."""
    names = {row.name for row in stages(spec)}
    found, now = {}, scores
    if "scaled" in names:
        now = found["scaled"] = scores / spec.divisor
    if "masked" in names:
        now = found["masked"] = now.masked_fill(~_allowed(spec, masks, scores), -torch.inf)
    return found


def _allowed(spec: AttentionSpec, masks: tuple[LayerMask, ...], scores: Tensor) -> Tensor:
    """Return which cells are allowed, [query, key] or [layer, 1, query, key]."""
    specs = [with_mask(spec, one) for one in masks] or [spec]
    each = [torch.tensor(allowed_by(Masking.of(one, "masked"), scores.shape[-1])) for one in specs]
    return torch.stack(each)[:, None] if masks else each[0]


def _are_softmax(scores: Tensor, weights: Tensor) -> bool:
    """Whether softmax of scores gives weights; head by head, as all at once would fill memory."""
    pairs = zip(scores.flatten(0, -3), weights.flatten(0, -3), strict=True)
    return all(
        bool(((torch.softmax(one, -1) - other).abs() <= TOLERANCE).all()) for one, other in pairs
    )


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
