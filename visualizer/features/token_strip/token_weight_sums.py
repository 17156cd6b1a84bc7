"""Sums of the weights of selected queries or keys; long texts are read in bands of rows.

The weights of a query are one row, which is read in milliseconds for 100,000 tokens. The weights
of a key are one column, which requires all rows and can take a minute.
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
"""Maximum number of rows that the worker reads at once."""
MAX_CACHED_SUMS = 8
"""Maximum number of cached sums per trace."""
KEY_BLOCK_SIZE = 2048
"""Number of keys per block; selected keys in the same block are read together."""


class WeightSumRequest(Struct, frozen=True):
    """A request for sums of weights.

    Parameters
    ----------
    head : int or None
        The head; None for the mean over all heads.
    is_selection : bool
        Whether the user has selected the tokens; the mean over heads is then prefetched.
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
    def needs_worker(self) -> bool:
        """Whether the sums need so many weights that they are computed on the worker."""
        is_folded = self.head is None and not self.is_selection
        heads = self.trace.spec.heads if is_folded else 1
        cells = heads * len(self.subjects) * max(self.trace.query_key_counts)
        return self.trace.is_blockwise or cells > MAX_GUI_THREAD_WEIGHTS

    def read_block(self, queries: slice, keys: slice) -> np.ndarray:
        """Read the weights of ranges of queries and keys, [query, key]."""
        trace, index = self.trace, self.leading
        if self.head is not None:
            return trace.read(self.stage, (*index, self.head, queries, keys))
        if self._uses_head_mean:
            return trace.displayed_tensor(self.stage, by=HeadAggregate.MEAN).read(
                (*index, queries, keys)
            )
        every = trace.read(self.stage, (*index, slice(None), queries, keys))
        return np.asarray(every.mean(axis=0, dtype=np.float64))

    def read_rows(self, queries: np.ndarray) -> np.ndarray:
        """Read all weights of the given queries, [query, key]."""
        held = self.trace.displayed_tensor(
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
        """Whether the weights are read from the cached mean over heads."""
        return self.head is None and (self.is_selection or self.trace.is_blockwise)

    def allowed_cells(self, queries: slice | np.ndarray, keys: slice) -> np.ndarray | None:
        """Return the cells that the mask allows, [query, key], or None if it allows all."""
        trace = self.trace
        if not trace.has_forbidden_cells(self.stage, self.leading, self.head):
            return None
        return trace.allowed_mask(self.stage, self.leading, self.head, queries, keys)


class WeightSums(Struct, frozen=True, eq=False):
    """Sums of weights, which are incomplete until all rows have been read.

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
    def is_complete(self) -> bool:
        return self.read == self.rows


class _SumAccumulator:
    """Accumulator that adds up weights row by row and provides intermediate results.

    It holds no reference to the trace, because it is cached for the lifetime of the trace.
    """

    def __init__(self, request: WeightSumRequest) -> None:
        queries, keys = request.trace.query_key_counts
        self._subjects = np.array(sorted(request.subjects))
        self._values = np.zeros(keys if request.are_queries else queries)
        self._adds_rows = request.are_queries
        self._forbidden = np.full(len(self._values), request.are_queries)
        self._rows = len(request.subjects) if request.are_queries else queries
        self._read = 0
        self.known = self._snapshot_sums()

    def read_more_bands(self, request: WeightSumRequest, is_over: Callable[[], bool]) -> None:
        """Read at least one band, and further bands until `is_over()`.

        The request must be the one that was passed to the constructor.
        """
        several = max(1, min(MAX_BAND_ROWS, MAX_BAND_WEIGHTS // request.trace.query_key_counts[1]))
        add = self._add_rows if request.are_queries else self._add_columns
        while self._read < self._rows:
            band = slice(self._read, min(self._read + several, self._rows))
            add(request, band)
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

    def _add_rows(self, request: WeightSumRequest, band: slice) -> None:
        """Add the rows of the selected queries in a band."""
        rows = self._subjects[band]
        self._values += request.read_rows(rows).sum(axis=0, dtype=np.float64)
        allowed = request.allowed_cells(rows, slice(None))
        self._forbidden &= False if allowed is None else ~allowed.any(axis=0)

    def _add_columns(self, request: WeightSumRequest, rows: slice) -> None:
        """Add the weights of the selected keys in a band of rows."""
        self._forbidden[rows] = True
        for span, among in _group_nearby_keys(self._subjects):
            allowed = request.allowed_cells(rows, span)
            if allowed is not None and not allowed[:, among].any():
                continue
            cells = request.read_block(rows, span)[:, among]
            self._values[rows] += cells.sum(axis=1, dtype=np.float64)
            may_read = True if allowed is None else allowed[:, among].any(axis=1)
            self._forbidden[rows] &= np.logical_not(may_read)


def _group_nearby_keys(keys: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Group nearby keys: yield the range of each group, and the indices of its keys within it."""
    for group in np.split(keys, np.flatnonzero(np.diff(keys // KEY_BLOCK_SIZE)) + 1):
        first = int(group[0])
        yield slice(first, int(group[-1]) + 1), group - first


_CACHED_SUMS: WeakKeyDictionary[Trace, OrderedDict[Hashable, _SumAccumulator]] = WeakKeyDictionary()


def known_sums(request: WeightSumRequest) -> WeightSums | None:
    """Return the sums known so far, or None if there are none; for short texts, all are known."""
    if not request.needs_worker:
        sums = _SumAccumulator(request)
        sums.read_more_bands(request, lambda: False)
        return sums.known
    kept = _CACHED_SUMS.get(request.trace)
    in_parts = kept.get(request.key) if kept else None
    return in_parts.known if in_parts and in_parts.known.read else None


def read_more_sums(request: WeightSumRequest, is_over: Callable[[], bool]) -> None:
    """Read more of the sums of a long text until `is_over()`; called on the worker."""
    kept = _CACHED_SUMS.setdefault(request.trace, OrderedDict())
    sums = kept.pop(request.key, None) or _SumAccumulator(request)
    kept[request.key] = sums
    while len(kept) > MAX_CACHED_SUMS:
        kept.popitem(last=False)
    sums.read_more_bands(request, is_over)
