"""How much of the pinned query each head reads from a marked place: the pinned key, or chosen keys.

One row of weights a head tells it; those of a long text are read late, one head after another.

Source: Wu et al. 2024, "Retrieval Head Mechanistically Explains Long-Context Factuality", whose
retrieval heads read the place of the answer; here it is their weight on it, and not what they copy.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from visualizer.attention.masks import Masking, allowed_cells
from visualizer.session.token_selection_and_search import TokenRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.session.resolved_view import Resolved

SPAN = 2048
"""Keys within so many are read together with those between them."""
KEPT = 8
"""Marked places of which the weights are kept."""


class MarkedPlace(Struct, frozen=True):
    """A query, and the keys of which it is asked how much it reads them."""

    text: int
    query: int
    keys: frozenset[int]


class RetrievalWeights(Struct, frozen=True, eq=False):
    """What was read of a marked place.

    Parameters
    ----------
    values : numpy.ndarray
        The sum of the weights on its keys, [layer, head]; NaN of heads that were not read.
    chance : tuple of float
        What uniform attention over the allowed keys would give, of each layer; NaN where it is not
        known which are allowed.
    read : int
        How many heads were read.
    """

    values: np.ndarray
    chance: tuple[float, ...]
    read: int = 0

    @property
    def is_whole(self) -> bool:
        return self.read == self.values.size


def marked_place(resolved: Resolved) -> MarkedPlace | None:
    """Return the pinned query with the keys that are chosen, or else the pinned key."""
    pinned, trace = resolved.pinned, resolved.run.trace
    if pinned is None or "weights" not in trace or "weights" in resolved.covered:
        return None
    dims = trace.stage(pinned.stage).dims
    place = dict(zip(dims[-len(pinned.place) :], pinned.place, strict=True))
    tokens = resolved.view.tokens
    keys = tokens.within(trace.sides[1]) if tokens.role is TokenRole.KEY else frozenset()
    if not keys and "key" in place:
        keys = frozenset({place["key"]})
    if "query" not in place or not keys:
        return None
    return MarkedPlace(trace.at("text", resolved.leading), place["query"], keys)


_KEPT: WeakKeyDictionary[Trace, OrderedDict[MarkedPlace, RetrievalWeights]] = WeakKeyDictionary()


def known_retrieval(resolved: Resolved) -> RetrievalWeights | None:
    """Return what is known of the marked place, of a short text all; None where none is marked."""
    place = marked_place(resolved)
    if place is None:
        return None
    if not resolved.run.trace.is_blockwise:
        read_retrieval(resolved, lambda: False)
    return _kept(resolved.run, place)


def is_retrieval_read(resolved: Resolved) -> bool:
    """Whether all heads of a marked place were read; so it is where none is marked."""
    place = marked_place(resolved)
    return place is None or _kept(resolved.run, place).is_whole


def read_retrieval(resolved: Resolved, is_over: Callable[[], bool]) -> None:
    """Read one head after another until it is over, one at least."""
    place, run = marked_place(resolved), resolved.run
    if place is None:
        return
    known, layers = _kept(run, place), _layers(run, place.text)
    while not known.is_whole:
        values = known.values.copy()
        layer, head = divmod(known.read, values.shape[1])
        values[layer, head] = _weight(run.trace, (*layers[layer], head), place)
        known = RetrievalWeights(values, known.chance, known.read + 1)
        if is_over():
            break
    kept = _KEPT[run.trace]
    kept[place] = known
    kept.move_to_end(place)
    while len(kept) > KEPT:
        kept.popitem(last=False)


def _kept(run: Run, place: MarkedPlace) -> RetrievalWeights:
    kept = _KEPT.setdefault(run.trace, OrderedDict())
    known = kept.get(place)
    if known is None:
        layers = _layers(run, place.text)
        none = np.full((len(layers), run.trace.spec.heads), math.nan)
        chance = tuple(_chance(run.trace, leading, place) for leading in layers)
        known = kept[place] = RetrievalWeights(none, chance)
    return known


def _layers(run: Run, text: int) -> list[LeadingIndex]:
    trace = run.trace
    if "layer" not in trace.axes:
        return [trace.leading_index(text=text)]
    return [trace.leading_index(layer=layer, text=text) for layer in range(trace.count("layer"))]


def _weight(trace: Trace, head: tuple[int, ...], place: MarkedPlace) -> float:
    """Add up a head's weights on the marked keys."""
    keys = np.array(sorted(place.keys))
    total = 0.0
    for group in np.split(keys, np.flatnonzero(np.diff(keys // SPAN)) + 1):
        first = int(group[0])
        row = trace.read("weights", (*head, place.query, slice(first, int(group[-1]) + 1)))
        total += float(row[group - first].sum(dtype=np.float64))
    return total


def _chance(trace: Trace, leading: LeadingIndex, place: MarkedPlace) -> float:
    """Return the share of the allowed keys that are marked."""
    if not (trace.has_module or trace.layer_masks or trace.is_blockwise):
        return math.nan
    masking = Masking.of(trace.spec_at(leading), "weights")
    allowed = allowed_cells(masking, trace.sides, place.text, np.array([place.query]))[0]
    count = int(np.count_nonzero(allowed))
    marked = int(np.count_nonzero(allowed[sorted(place.keys)]))
    return marked / count if count else math.nan
