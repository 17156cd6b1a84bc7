"""Attention weight of each head from the pinned query to the chosen keys or the pinned key.

This needs one row of weights per head. For a long text, the rows are read later, head by head.

Source: Wu et al. 2024, "Retrieval Head Mechanistically Explains Long-Context Factuality", in which
retrieval heads copy from the position of the answer. Here, only the weight is measured.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from visualizer.attention.masks import MaskingSpec, allowed_cells
from visualizer.attention.roles import Role
from visualizer.session.token_selection import TokenRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.session.resolved_view import ResolvedView

MAX_KEY_SPAN = 2048
"""Maximum number of keys in a span that is read in one piece, including unmarked keys."""
MAX_CACHED_RESULTS = 8
"""Maximum number of cached results per run."""


class RetrievalTarget(Struct, frozen=True):
    """A query, and the keys for which its attention weight is measured."""

    text: int
    query: int
    keys: frozenset[int]


class RetrievalWeights(Struct, frozen=True, eq=False):
    """Attention weights from a query to marked keys.

    Parameters
    ----------
    values : numpy.ndarray
        Sum of the weights on the keys, [layer, head]; NaN for heads that were not read.
    chance : tuple of float
        The sum under uniform attention over the allowed keys, per layer; NaN if the allowed keys
        are unknown.
    read : int
        Number of heads that were read.
    """

    values: np.ndarray
    chance: tuple[float, ...]
    read: int = 0

    @property
    def is_complete(self) -> bool:
        return self.read == self.values.size


def retrieval_target(resolved: ResolvedView) -> RetrievalTarget | None:
    """Return the pinned query with the chosen keys, or with the pinned key if none is chosen."""
    pinned, trace = resolved.pinned, resolved.run.trace
    if pinned is None or Role.WEIGHTS not in trace or Role.WEIGHTS in resolved.hidden_stages:
        return None
    dims = trace.stage(pinned.stage).dims
    place = dict(zip(dims[-len(pinned.place) :], pinned.place, strict=True))
    tokens = resolved.view.tokens
    keys = (
        tokens.tokens_below(trace.query_key_counts[1])
        if tokens.role is TokenRole.KEY
        else frozenset()
    )
    if not keys and "key" in place:
        keys = frozenset({place["key"]})
    if "query" not in place or not keys:
        return None
    return RetrievalTarget(trace.axis_position("text", resolved.leading), place["query"], keys)


_cached_results: WeakKeyDictionary[Trace, OrderedDict[RetrievalTarget, RetrievalWeights]] = (
    WeakKeyDictionary()
)


def available_retrieval_weights(resolved: ResolvedView) -> RetrievalWeights | None:
    """Return the weights read so far (all for a short text), or None if no key is marked."""
    place = retrieval_target(resolved)
    if place is None:
        return None
    if not resolved.run.trace.is_blockwise:
        read_retrieval_weights(resolved, lambda: False)
    return _cached_weights(resolved.run, place)


def is_retrieval_complete(resolved: ResolvedView) -> bool:
    """Return whether all heads have been read, or whether no key is marked."""
    place = retrieval_target(resolved)
    return place is None or _cached_weights(resolved.run, place).is_complete


def read_retrieval_weights(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Read the heads one by one until `is_over` returns true, but at least one head."""
    place, run = retrieval_target(resolved), resolved.run
    if place is None:
        return
    known, layers = _cached_weights(run, place), _layer_indices(run, place.text)
    while not known.is_complete:
        values = known.values.copy()
        layer, head = divmod(known.read, values.shape[1])
        values[layer, head] = _sum_weights(run.trace, (*layers[layer], head), place)
        known = RetrievalWeights(values, known.chance, known.read + 1)
        if is_over():
            break
    kept = _cached_results[run.trace]
    kept[place] = known
    kept.move_to_end(place)
    while len(kept) > MAX_CACHED_RESULTS:
        kept.popitem(last=False)


def _cached_weights(run: Run, place: RetrievalTarget) -> RetrievalWeights:
    kept = _cached_results.setdefault(run.trace, OrderedDict())
    known = kept.get(place)
    if known is None:
        layers = _layer_indices(run, place.text)
        none = np.full((len(layers), run.trace.spec.heads), math.nan)
        chance = tuple(_uniform_baseline(run.trace, leading, place) for leading in layers)
        known = kept[place] = RetrievalWeights(none, chance)
    return known


def _layer_indices(run: Run, text: int) -> list[LeadingIndex]:
    trace = run.trace
    if "layer" not in trace.axes:
        return [trace.leading_index(text=text)]
    return [
        trace.leading_index(layer=layer, text=text) for layer in range(trace.axis_size("layer"))
    ]


def _sum_weights(trace: Trace, head: tuple[int, ...], place: RetrievalTarget) -> float:
    """Sum a head's weights on the marked keys."""
    keys = np.array(sorted(place.keys))
    total = 0.0
    for group in np.split(keys, np.flatnonzero(np.diff(keys // MAX_KEY_SPAN)) + 1):
        first = int(group[0])
        row = trace.read(Role.WEIGHTS, (*head, place.query, slice(first, int(group[-1]) + 1)))
        total += float(row[group - first].sum(dtype=np.float64))
    return total


def _uniform_baseline(trace: Trace, leading: LeadingIndex, place: RetrievalTarget) -> float:
    """Return the fraction of the allowed keys that are marked."""
    if not (trace.has_module or trace.layer_masks or trace.is_blockwise):
        return math.nan
    masking = MaskingSpec.from_spec(trace.spec_at(leading), Role.WEIGHTS)
    allowed = allowed_cells(masking, trace.query_key_counts, place.text, np.array([place.query]))[0]
    count = int(np.count_nonzero(allowed))
    marked = int(np.count_nonzero(allowed[sorted(place.keys)]))
    return marked / count if count else math.nan
