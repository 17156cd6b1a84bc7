"""Sums of the weights of selected queries or keys; long texts are read in bands of rows.

The weights of a query are one row, which takes milliseconds for 100,000 tokens. The weights of a
key are a column, which requires all rows and may take a minute.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from visualizer.attention.display_transforms import HeadAggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from visualizer.attention.trace import LeadingIndex, Trace

MAX_GUI_THREAD_WEIGHTS = 2**21
"""Maximum number of weights that are read on the GUI thread."""
MAX_BAND_WEIGHTS = 2**23
"""Maximum number of weights that the worker reads at once."""
MAX_BAND_ROWS = 256
MAX_CACHED_SUMS = 8
"""Maximum number of cached sums per trace."""
KEY_BLOCK_SIZE = 2048
"""Size of a block of keys; selected keys in the same block are read in one range."""


class WeightQuery(Struct, frozen=True):
    """A request for sums of weights.

    Parameters
    ----------
    head : int or None
        None for the mean over all heads.
    is_selection : bool
        Whether the tokens are selected; the mean over heads is then prefetched.
    are_queries : bool
        Whether the tokens are queries rather than keys.
    """

    trace: Trace
    stage: str
    leading: LeadingIndex
    head: int | None
    subjects: frozenset[int]
    is_selection: bool
    are_queries: bool

    @property
    def key(self) -> Hashable:
        """Cache key of the sums within a trace."""
        return self.stage, self.leading, self.head, self.subjects, self.are_queries

    @property
    def is_long(self) -> bool:
        """Whether the sums are computed on the worker."""
        is_folded = self.head is None and not self.is_selection
        heads = self.trace.spec.heads if is_folded else 1
        cells = heads * len(self.subjects) * max(self.trace.sides)
        return self.trace.is_blockwise or cells > MAX_GUI_THREAD_WEIGHTS

    def read_block(self, queries: slice, keys: slice) -> np.ndarray:
        """Read the weights of ranges of queries and keys, [query, key]."""
        trace, index = self.trace, self.leading
        if self.head is not None:
            return trace.read(self.stage, (*index, self.head, queries, keys))
        if self._uses_head_mean:
            return trace.displayed_stage(self.stage, by=HeadAggregate.MEAN).read(
                (*index, queries, keys)
            )
        every = trace.read(self.stage, (*index, slice(None), queries, keys))
        return np.asarray(every.mean(axis=0, dtype=np.float64))

    def read_rows(self, queries: np.ndarray) -> np.ndarray:
        """Read all weights of some queries, [query, key]."""
        held = self.trace.displayed_stage(
            self.stage, by=HeadAggregate.MEAN if self._uses_head_mean else None
        )
        if self.head is not None:
            return held.read_rows(queries, (*self.leading, self.head))
        if self._uses_head_mean:
            return held.read_rows(queries, self.leading)
        heads = range(self.trace.spec.heads)
        every = [held.read_rows(queries, (*self.leading, head)) for head in heads]
        return np.asarray(np.mean(every, axis=0, dtype=np.float64))

    @property
    def _uses_head_mean(self) -> bool:
        """Whether the mean over heads is cached, or is computed only for the blocks read."""
        return self.head is None and (self.is_selection or self.trace.is_blockwise)

    def allowed(self, queries: slice | np.ndarray, keys: slice) -> np.ndarray | None:
        """Return the cells that the mask allows, [query, key]; None if it allows all."""
        trace = self.trace
        if not trace.is_hatched(self.stage, self.leading, self.head):
            return None
        return trace.allowed(self.stage, self.leading, self.head, queries, keys)


class WeightSums(Struct, frozen=True, eq=False):
    """The sums known so far.

    Parameters
    ----------
    values : numpy.ndarray
        The sum of the selected queries' rows, or of the selected keys' columns, [token].
    forbidden : numpy.ndarray
        Tokens for which the mask forbids every cell with the selected tokens, [token].
    read, rows : int
        Number of rows of weights read so far, and in total.
    """

    values: np.ndarray
    forbidden: np.ndarray
    read: int
    rows: int

    @property
    def is_whole(self) -> bool:
        return self.read == self.rows


class _SumAccumulator:
    """Accumulator of weights, row by row, that provides intermediate results.

    It holds no reference to the trace, because it is cached for the lifetime of the trace.
    """

    def __init__(self, query: WeightQuery) -> None:
        queries, keys = query.trace.sides
        self._subjects = np.array(sorted(query.subjects))
        self._values = np.zeros(keys if query.are_queries else queries)
        self._adds_rows = query.are_queries
        self._forbidden = np.full(len(self._values), query.are_queries)
        self._rows = len(query.subjects) if query.are_queries else queries
        self._read = 0
        self.known = self._snapshot_sums()

    def read_more(self, query: WeightQuery, is_over: Callable[[], bool]) -> None:
        """Read at least one band, and more until `is_over()`; `query` must be the constructor's."""
        several = max(1, min(MAX_BAND_ROWS, MAX_BAND_WEIGHTS // query.trace.sides[1]))
        add = self._add_rows if query.are_queries else self._add_columns
        while self._read < self._rows:
            band = slice(self._read, min(self._read + several, self._rows))
            add(query, band)
            self._read = band.stop
            if is_over():
                break
        self.known = self._snapshot_sums()

    def _snapshot_sums(self) -> WeightSums:
        values, forbidden = self._values, self._forbidden
        if self._read < self._rows:  # the arrays are still modified
            values, forbidden = values.copy(), forbidden.copy()
            if self._adds_rows:  # a later row may allow any token
                forbidden[:] = False
        return WeightSums(values, forbidden, self._read, self._rows)

    def _add_rows(self, query: WeightQuery, band: slice) -> None:
        """Add the rows of some of the selected queries."""
        rows = self._subjects[band]
        self._values += query.read_rows(rows).sum(axis=0, dtype=np.float64)
        allowed = query.allowed(rows, slice(None))
        self._forbidden &= False if allowed is None else ~allowed.any(axis=0)

    def _add_columns(self, query: WeightQuery, rows: slice) -> None:
        """Add the weights of the selected keys for some rows of queries."""
        self._forbidden[rows] = True
        for span, among in _group_keys(self._subjects):
            allowed = query.allowed(rows, span)
            if allowed is not None and not allowed[:, among].any():
                continue
            cells = query.read_block(rows, span)[:, among]
            self._values[rows] += cells.sum(axis=1, dtype=np.float64)
            may_read = True if allowed is None else allowed[:, among].any(axis=1)
            self._forbidden[rows] &= np.logical_not(may_read)


def _group_keys(keys: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Group nearby keys: yield the range of each group, and the indices of its keys within it."""
    for group in np.split(keys, np.flatnonzero(np.diff(keys // KEY_BLOCK_SIZE)) + 1):
        first = int(group[0])
        yield slice(first, int(group[-1]) + 1), group - first


_CACHED_SUMS: WeakKeyDictionary[Trace, OrderedDict[Hashable, _SumAccumulator]] = WeakKeyDictionary()


def known_sums(query: WeightQuery) -> WeightSums | None:
    """Return the sums known so far, complete for short texts; None if nothing is known."""
    if not query.is_long:
        sums = _SumAccumulator(query)
        sums.read_more(query, lambda: False)
        return sums.known
    kept = _CACHED_SUMS.get(query.trace)
    in_parts = kept.get(query.key) if kept else None
    return in_parts.known if in_parts and in_parts.known.read else None


def read_more_sums(query: WeightQuery, is_over: Callable[[], bool]) -> None:
    """Read more of the sums of a long text until `is_over()`; called on the worker."""
    kept = _CACHED_SUMS.setdefault(query.trace, OrderedDict())
    sums = kept.pop(query.key, None) or _SumAccumulator(query)
    kept[query.key] = sums
    while len(kept) > MAX_CACHED_SUMS:
        kept.popitem(last=False)
    sums.read_more(query, is_over)
