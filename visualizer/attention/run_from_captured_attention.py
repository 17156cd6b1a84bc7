"""A run made of attention captured from another model, without computing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.captured_attention import (
    CapturedAttention,
    captured_stages,
    position_labels,
)
from visualizer.attention.run import Run
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


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
    held = {"weights" if is_weights else "scores": CachedTensor(tensor)}
    rows = captured_stages(captured.spec, held, held)
    trace = Trace(captured.spec, rows, {}, held, frozenset(held), axes)
    return trace, tuple(_remarks(whole, is_weights=is_weights))


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
