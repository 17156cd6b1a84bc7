"""The strongest lines of a long text, selected from the rows of weights of a few queries.

The attention matrix of a long text is not stored, and computing one row of 100,000 weights takes
milliseconds. Lines are therefore drawn for a few queries only: those near the pinned query or,
if no query is pinned, a sample of the visible ones. Their rows are read in the background.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.masks import allowed_cells
from visualizer.features.line_view.line_selection import (
    LineRequest,
    SelectedLines,
    automatic_range_end,
    create_line_request,
    create_sorted_lines,
    full_strength_weights,
    line_tensor,
    mask_of_drawn_lines,
    no_lines_reason,
)
from visualizer.heatmap.cell_cursor import create_cursor_on_cell
from visualizer.session.view_options import PANE_TITLE, LineViewSide, LineViewToken

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import ResolvedView

MAX_LONG_TEXT_LINES = 64
"""Maximum number of lines of all queries together, excluding those added for the pinned query."""
MAX_PINNED_QUERY_LINES = 16
"""Maximum number of lines of the pinned query that are always drawn."""
PINNED_BLOCK_QUERIES = 16
"""Number of queries in the block that is read around the pinned query.

The cursor can move within this block without further reading.
"""
MAX_QUERIES = 64
"""Maximum number of queries that are read if no query is pinned."""
MAX_CACHED_QUERY_SETS = 8
"""Maximum number of cached sets of queries, per tensor."""


class StrongestWeights(Struct, frozen=True, eq=False):
    """The largest weights of some queries, for the heads read so far.

    Parameters
    ----------
    queries : range
        The queries that were read.
    weights, keys : numpy.ndarray
        The largest weights of each row, largest first, and their keys, [head, query, nth].
    pairs : int
        Number of allowed pairs of these queries and all keys, over the heads read so far.
    heads : int
        Number of heads to read.
    """

    queries: range
    weights: np.ndarray
    keys: np.ndarray
    pairs: int
    heads: int

    @property
    def heads_read(self) -> int:
        """Number of heads read so far."""
        return len(self.weights)

    @property
    def is_complete(self) -> bool:
        return self.heads_read == self.heads


class LongTextLineRequest(Struct, frozen=True):
    """The rows of weights from which lines are selected."""

    request: LineRequest
    queries: range

    @property
    def key(self) -> Hashable:
        """The cache key of the values that are read; thresholds only select from these values."""
        request = self.request
        return request.leading, request.heads, request.masking, self.queries


def create_long_text_line_request(resolved: ResolvedView) -> LongTextLineRequest:
    """Return the queries near the pinned one or, without one, evenly spaced visible queries."""
    count = resolved.run.trace.query_key_counts[0]
    pinned = pinned_query(resolved)
    if pinned is not None:
        start = pinned // PINNED_BLOCK_QUERIES * PINNED_BLOCK_QUERIES
        near = range(start, min(start + PINNED_BLOCK_QUERIES, count))
        return LongTextLineRequest(create_line_request(resolved), near)
    seen = resolved.zoom.queries if resolved.zoom else range(count)
    step = -(-len(seen) // MAX_QUERIES)
    return LongTextLineRequest(create_line_request(resolved), seen[step // 2 :: step])


def pinned_query(resolved: ResolvedView) -> int | None:
    """Return the query of the pinned cell, or None if no cell is pinned."""
    pinned = resolved.reached_pinned_cell
    return create_cursor_on_cell(resolved, None, pinned).query if pinned else None


# ------------------------------------------------------------------ reading

_CACHE: WeakKeyDictionary[CachedTensor, dict[Hashable, StrongestWeights]] = WeakKeyDictionary()


def cached_strongest_weights(run: Run, wanted: LongTextLineRequest) -> StrongestWeights | None:
    """Return the weights read so far, or None until the first head has been read."""
    return _CACHE.get(line_tensor(run, wanted.request), {}).get(wanted.key)


def are_weights_read(resolved: ResolvedView) -> bool:
    """Return whether the weights of all visible lines have been read, or no lines are visible."""
    run = resolved.run
    if not run.trace.is_blockwise or PANE_TITLE not in resolved.view.panes or no_lines_reason(run):
        return True
    known = cached_strongest_weights(run, create_long_text_line_request(resolved))
    return known is not None and known.is_complete


def read_more_weights(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Read at least one head, and further heads until `is_over()`; called on the worker."""
    if are_weights_read(resolved):
        return
    run, wanted = resolved.run, create_long_text_line_request(resolved)
    request, trace = wanted.request, run.trace
    tensor, rows = line_tensor(run, request), np.array(wanted.queries)
    text = trace.axis_position("text", request.leading)
    allowed = allowed_cells(request.masking, trace.query_key_counts, text, rows)  # query key
    pairs = int(np.count_nonzero(allowed))
    cached = _CACHE.setdefault(tensor, {})
    none = np.zeros((0, len(rows), min(MAX_LONG_TEXT_LINES, trace.query_key_counts[1])))
    empty = StrongestWeights(wanted.queries, none, none.astype(int), 0, len(request.heads))
    known = cached.get(wanted.key) or empty
    while not known.is_complete:
        head = request.heads[known.heads_read]
        numbers = tensor.read_rows(rows, (*request.leading, head))
        weights, keys = _largest_values_per_row(numbers, allowed)
        known = replace(
            known,
            weights=np.concatenate([known.weights, weights[None]]),
            keys=np.concatenate([known.keys, keys[None]]),
            pairs=known.pairs + pairs,
        )
        if is_over():
            break
    cached.pop(wanted.key, None)
    cached[wanted.key] = known  # the most recent one is last
    if len(cached) > MAX_CACHED_QUERY_SETS:
        del cached[next(iter(cached))]


def _largest_values_per_row(
    numbers: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of largest magnitude in each row, largest first, and their keys."""
    sizes = np.where(allowed & np.isfinite(numbers), np.abs(numbers), 0)
    count = min(MAX_LONG_TEXT_LINES, sizes.shape[1])
    keys = np.argpartition(sizes, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(sizes, keys, 1), axis=1, kind="stable")
    keys = np.take_along_axis(keys, order, 1)
    weights = np.take_along_axis(numbers, keys, 1)
    return np.where(np.take_along_axis(sizes, keys, 1) > 0, weights, 0), keys


# ------------------------------------------------------------------ selecting


class LongTextLineSelector:
    """Selection of lines from the weights read for a few queries.

    Parameters
    ----------
    end : float or None
        The end of the automatic range, if it is chosen.
    pinned : int or None
        The query for which the strongest lines are always drawn.
    """

    def __init__(
        self,
        found: StrongestWeights,
        request: LineRequest,
        end: float | None = None,
        pinned: int | None = None,
    ) -> None:
        largest = np.abs(found.weights[..., 0]).max(axis=0)  # query
        full, strongest = full_strength_weights(request, largest, end)
        passing = mask_of_drawn_lines(found.weights, request)
        if request.top:
            passing[..., request.top :] = False
        heads, rows, _ = at = np.nonzero(passing)
        place = np.array(request.heads)[heads], np.array(found.queries)[rows], found.keys[at]
        every = create_sorted_lines(place, found.weights[at], full[rows], strongest)
        drawn = np.arange(max(0, len(every) - MAX_LONG_TEXT_LINES), len(every))
        if pinned is not None:
            own = np.flatnonzero(every.queries == pinned)[-MAX_PINNED_QUERY_LINES:]
            drawn = np.union1d(own, drawn)
        self.drawn = every.subset(drawn, len(drawn) < len(every))
        # A line can be drawn only if both of its tokens are listed.
        tokens = np.union1d(self.drawn.queries, self.drawn.keys)
        are_listed = np.isin(every.queries, tokens) & np.isin(every.keys, tokens)
        self._listed = every.subset(are_listed, False)

    def select_lines(self, token: LineViewToken) -> SelectedLines:
        """Select the lines from a query or to a key, for all drawn heads."""
        lines = self._listed
        tokens = lines.queries if token.side is LineViewSide.QUERY else lines.keys
        return lines.subset(tokens == token.at, False)

    def weight_and_strength_of_cell(self, place: tuple[int, ...]) -> tuple[float | None, float]:
        """Return the weight at a head, query and key (None without a line), and its strength."""
        head, query, key = place
        lines = self._listed
        at = np.flatnonzero((lines.heads == head) & (lines.queries == query) & (lines.keys == key))
        if not len(at):
            return None, 0.0
        return float(lines.weights[at[0]]), float(lines.line_strengths[at[0]])


def create_long_text_line_selector(resolved: ResolvedView) -> LongTextLineSelector | None:
    """Return the lines selected from the weights read so far, or None before the first head."""
    wanted = create_long_text_line_request(resolved)
    found = cached_strongest_weights(resolved.run, wanted)
    if not found:
        return None
    end = automatic_range_end(resolved.run, wanted.request)
    return _select_lines(found, wanted.request, end, pinned_query(resolved))


_select_lines = lru_cache(maxsize=4)(LongTextLineSelector)
