"""Captured attention as a run: nothing is computed, and what needs only weights is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.captured import Captured, numbered, stage_of
from visualizer.attention.held import Held
from visualizer.attention.run import Run
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

UNEVEN = 0.01
"""What a row's sum may be away from 1: 16 bits a number leave as much."""


def replay(
    captured: Captured,
    query_tokens: tuple[str, ...] = (),
    key_tokens: tuple[str, ...] = (),
    previous: Run | None = None,
) -> Run:
    """Show captured attention.

    Parameters
    ----------
    query_tokens, key_tokens : tuple of str
        Typed ones, in place of those of the file.
    previous : Run, optional
        An earlier run; what was read of the same numbers is kept.
    """
    queries = query_tokens or captured.query_tokens or numbered(captured.queries)
    keys = key_tokens or captured.key_tokens
    if not keys:
        keys = queries if captured.is_square else numbered(captured.keys)
    trace, notices = _kept(captured, previous) or _made(captured)
    return Run((queries,) * captured.layers, trace, "Not computed here", notices, captured, keys)


def _kept(captured: Captured, previous: Run | None) -> tuple[Trace, tuple[str, ...]] | None:
    is_same = previous is not None and previous.captured == captured
    return (previous.trace, previous.notices) if previous and is_same else None


def _made(captured: Captured) -> tuple[Trace, tuple[str, ...]]:
    whole = torch.tensor(captured.array())  # layer head query key
    tensor = whole if captured.layers > 1 else whole[0]
    is_weights = not any(bool((layer < 0).any()) for layer in whole)
    stage = stage_of(is_weights=is_weights)
    trace = Trace(captured.spec, (stage,), {}, {stage.name: Held(tensor)}, frozenset({stage.name}))
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
