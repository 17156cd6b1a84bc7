"""Stages with values that are fetched from a server when needed: whole, by matrix or by block."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from visualizer.attention.blockwise_stages import BlockCalculator
from visualizer.attention.blockwise_tensor import BlockSource, BlockwiseTensor
from visualizer.attention.cached_tensor import CachedTensor, to_readonly_array
from visualizer.attention.captured_attention import with_layer_mask
from visualizer.attention.drawn_tiles import PreviewLayout
from visualizer.attention.remote_numbers import (
    NumbersPendingError,
    may_wait,
    notify_arrival_listeners,
)
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.stages import shape
from visualizer.errors import InputError
from visualizer.models.model_protocol.responses import SIZE_MISMATCH_ERROR, check_response_array
from visualizer.progress import CancelledError, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from concurrent.futures import Future

    from visualizer.attention.blockwise_tensor import BlockExtremes
    from visualizer.attention.cached_tensor import Index
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.drawn_tiles import LeadingIndices
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.models.model_client.server_client import Response

    Fetched = Mapping[str, np.ndarray]
    Tensor = torch.Tensor
    Ask = Callable[[str, dict[str, Any]], dict[str, np.ndarray]]
    """Function that requests arrays of a run, given the kind of the request and its fields."""
    _BlockRequest = tuple[tuple[int, ...], int, int, int]
    """Rows, start column, end column (exclusive), and number of columns per block."""


MAX_CACHED_BYTES = 2**28
"""Maximum size of the cache, in bytes; the least recently used entries are dropped first."""
RETRY_DELAY_S = 3.0
"""Time before a failed request is retried automatically, in seconds."""
MAX_CONCURRENT_REQUESTS = 12
"""Maximum number of concurrent prefetch requests. If a slow network loses packets, several
connections transfer more data than one.
"""
CANCEL_CHECK_INTERVAL_S = 0.1
"""Time between two cancellation checks while waiting, in seconds."""
THREAD_NAME = "fetch from model server"
"""Name of the threads that fetch arrays."""


class FetchedArrayCache:
    """Cache of arrays, each of which is fetched once, immediately or in the background."""

    def __init__(self) -> None:
        self._cached: OrderedDict[Hashable, Fetched] = OrderedDict()
        self._cached_bytes = 0
        self._pending_keys: set[Hashable] = set()
        self._awaited_keys: set[Hashable] = set()
        """Keys of the arrays that are announced when they arrive."""
        self._failure_times: dict[Hashable, float] = {}
        self._refusal: InputError | None = None
        self._lock = threading.Lock()
        self._fetch_ended = threading.Condition(self._lock)

    def get(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        """Return the arrays for a key; call `fetch` if they are not cached.

        Raises
        ------
        InputError
            As raised by `fetch`, if the caller may wait.
        NumbersPendingError
            If the caller may not wait. The arrays are fetched in the background, and their arrival
            is announced.
        """
        with self._lock:
            while True:
                arrays = self._cached.get(key)
                if arrays is not None:
                    self._cached.move_to_end(key)
                    return arrays
                if not may_wait():
                    self._awaited_keys.add(key)
                    self._start_fetch(key, fetch)
                    raise NumbersPendingError
                if key not in self._pending_keys:
                    self._pending_keys.add(key)
                    break
                self._fetch_ended.wait(CANCEL_CHECK_INTERVAL_S)
                check_cancelled()
        return self._fetch_and_store(key, fetch)

    def last_error(self) -> InputError | None:
        """Return the error of the last request, or None if the request succeeded."""
        return self._refusal

    def prefetch(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        """Prefetch arrays that are likely to be needed, unless many requests are in progress."""
        with self._lock:
            if key not in self._cached and len(self._pending_keys) < MAX_CONCURRENT_REQUESTS:
                self._start_fetch(key, fetch)

    def is_cached(self, key: Hashable) -> bool:
        """Return whether the arrays for a key are cached."""
        return key in self._cached

    def _start_fetch(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        has_failed_recently = (
            monotonic() - self._failure_times.get(key, 0.0) < RETRY_DELAY_S
            and key in self._failure_times
        )
        if key not in self._pending_keys and not has_failed_recently:
            self._pending_keys.add(key)
            thread = threading.Thread(
                target=self._fetch_ignoring_errors, args=(key, fetch), name=THREAD_NAME, daemon=True
            )
            thread.start()

    def _fetch_ignoring_errors(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        with suppress(InputError):  # reported when the arrival is announced
            self._fetch_and_store(key, fetch)

    def _fetch_and_store(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        try:
            arrays = fetch()
            self.store(key, arrays)
            self._refusal = None
            return arrays
        except CancelledError:
            raise  # this caller no longer needs the arrays; the next caller fetches them again
        except Exception as error:
            self._failure_times[key] = monotonic()
            if isinstance(error, InputError):
                # A new error, because the frames of the old one's traceback refer to the arrays.
                self._refusal = InputError(error.field, error.sentence)
            raise
        finally:
            self._finish_fetch(key)

    def _finish_fetch(self, key: Hashable) -> None:
        with self._lock:
            self._pending_keys.discard(key)
            is_awaited = key in self._awaited_keys
            self._awaited_keys.discard(key)
            self._fetch_ended.notify_all()
        if is_awaited:
            notify_arrival_listeners()

    def store(self, key: Hashable, arrays: Fetched) -> None:
        """Cache arrays that have arrived."""
        with self._lock:
            if key not in self._cached:
                self._cached[key] = arrays
                self._cached_bytes += _total_bytes(arrays)
            self._failure_times.pop(key, None)
            while self._cached_bytes > MAX_CACHED_BYTES and len(self._cached) > 1:
                _, gone = self._cached.popitem(last=False)
                self._cached_bytes -= _total_bytes(gone)


def _total_bytes(arrays: Fetched) -> int:
    return sum(array.nbytes for array in arrays.values())


FETCHED_ROWS = 8
"""Number of rows around the cell or token under the pointer that are fetched and cached."""
MAX_PREFETCHED_BYTES = 2**14
"""Size, in bytes, of the largest response that is also prefetched for the next layers."""


class RemoteStage(CachedTensor):
    """A stage that fetches single matrices when they are read, or all matrices if all are needed.

    Parameters
    ----------
    sizes : tuple of int
        Shape of the whole stage; the first axis contains the layers if there are several.
    together : tuple of str
        Stages with the same axes that are fetched together: the details of a cell require the same
        element of all of them.
    """

    def __init__(
        self,
        name: str,
        sizes: tuple[int, ...],
        dtype: torch.dtype,
        together: tuple[str, ...],
        fetcher: FetchedArrayCache,
        ask: Ask,
    ) -> None:
        self._kept = {}
        self._name, self._shape, self._dtype = name, sizes, dtype
        self._stages_together, self._fetcher, self._ask = together, fetcher, ask

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        values = self._fetcher.get((self._name, ()), self._request_all).get(self._name)
        return _checked_tensor(values, self._shape)

    def _request_all(self) -> dict[str, np.ndarray]:
        return self._ask("stage", {"stages": [self._name], "place": []})

    def read(self, index: Index = ()) -> np.ndarray:
        """Read only the selected matrix if the index selects one."""
        count = len(self._shape) - 2
        place = tuple(int(at) for at in index[:count] if not isinstance(at, slice))
        is_whole = len(place) < count or not count
        if is_whole or self._fetcher.is_cached((self._name, ())):
            return super().read(index)
        if not all(0 <= at < size for at, size in zip(place, self._shape, strict=False)):
            raise IndexError(index)
        matrix = _checked_tensor(self._fetch_part(place), self._shape[count:])
        return to_readonly_array(matrix[index[count:]])

    def row_magnitudes(self, index: Index = ()) -> np.ndarray:
        """Return the largest finite absolute value in each row of one matrix."""
        if not index:
            return super().row_magnitudes()
        return CachedTensor(torch.tensor(self.read(index))).row_magnitudes()

    def _fetch_part(self, place: LeadingIndices) -> np.ndarray | None:
        part = self._fetcher.get(
            (self._stages_together, place), partial(self._request_values, place)
        )
        return part.get(self._name)

    def _prefetch_part(self, place: LeadingIndices) -> None:
        self._fetcher.prefetch((self._stages_together, place), partial(self._request_values, place))

    def _request_values(self, place: LeadingIndices) -> dict[str, np.ndarray]:
        return self._ask("stage", {"stages": [*self._stages_together], "place": [*place]})

    is_in_memory = False

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def bytes(self) -> int:
        return math.prod(self._shape) * self._dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape


class RemoteAttentionWeights(RemoteStage):
    """The attention weights of a text, fetched in parts over several connections.

    All heads of a layer are fetched together; if all weights are needed, they are fetched layer by
    layer.

    Parameters
    ----------
    limits : tuple of float
        Smallest and largest value, for the colour scale before all values have arrived.
    first : ndarray or None
        Weights of the first layer, if already available.
    heads : sequence of Future
        Pending responses with the first heads of the first layer, if they were prefetched.
    """

    def __init__(
        self,
        name: str,
        sizes: tuple[int, ...],
        dtype: torch.dtype,
        limits: tuple[float, float],
        first: np.ndarray | None,
        heads: Sequence[Future[Response]],
        fetcher: FetchedArrayCache,
        ask: Ask,
    ) -> None:
        super().__init__(name, sizes, dtype, (name,), fetcher, ask)
        if first is not None:
            for head, one in enumerate(_checked_tensor(first, sizes[1:]).numpy()):
                fetcher.store((self._stages_together, (0, head)), {name: one})
        for head, answer in enumerate(heads):
            ask_for_it = partial(self._request_values, (0, head))
            ahead = partial(_prefetched_or_fetch, answer, name, ask_for_it)
            fetcher.prefetch((self._stages_together, (0, head)), ahead)
        self._known_limits = limits
        self._whole: Tensor | None = None

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        if self._whole is None:
            self._whole = super().tensor
        return self._whole

    def read(self, index: Index = ()) -> np.ndarray:
        """Read one matrix; the matrices of the other heads in its layer are fetched with it."""
        return super().read(index) if self._whole is None else to_readonly_array(self._whole[index])

    def limits(self) -> tuple[float, float]:
        """Return the smallest and largest finite values."""
        return self._known_limits

    def _request_all(self) -> dict[str, np.ndarray]:
        parts, count = [], self._shape[0]
        for at in range(count):
            for one in range(at, min(at + MAX_CONCURRENT_REQUESTS, count)):
                self._prefetch_part((one,))
            layer = super()._fetch_part((at,))
            parts.append(_checked_tensor(layer, self._shape[1:]).numpy())
        return {self._name: np.stack(parts)}

    def _fetch_part(self, place: LeadingIndices) -> np.ndarray | None:
        *layer, _ = place
        for head in range(self._shape[-3]):
            self._prefetch_part((*layer, head))
        return super()._fetch_part(place)


class RemoteParameters(Mapping[str, "Tensor"]):
    """Parameters of a model; all of them are fetched when one is read.

    Parameters
    ----------
    sizes : mapping
        Shapes of the parameters that the server sends.
    """

    def __init__(
        self, sizes: Mapping[str, tuple[int, ...]], fetcher: FetchedArrayCache, ask: Ask
    ) -> None:
        self._shape, self._fetcher, self._ask = sizes, fetcher, ask

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape)

    def __len__(self) -> int:
        return len(self._shape)

    def __contains__(self, name: object) -> bool:
        return name in self._shape

    def __getitem__(self, name: str) -> Tensor:
        sizes = self._shape[name]
        values = self._fetcher.get("weights", lambda: self._ask("weights", {})).get(name)
        # Expert ids are integers.
        return torch.from_numpy(check_response_array(values, sizes, "fi").copy())


class RemoteBlockCalculator(BlockCalculator):
    """The shapes and settings of a long text's matrices, without their values."""

    def __init__(
        self,
        header: CapturedAttention,
        dtype: torch.dtype,
        rows: tuple[Stage, ...],
        fetcher: FetchedArrayCache,
        ask: Ask,
    ) -> None:
        super().__init__(header.spec, dtype, rows)
        self._header, self._fetcher, self._ask = header, fetcher, ask
        masks = header.vectors.layer_masks if header.vectors else ()
        self._specs = tuple(with_layer_mask(header.spec, mask) for mask in masks)

    @property
    def leading_sizes(self) -> tuple[int, ...]:
        return (self._header.layers,)[: self._header.layers - 1]

    def query_key_counts(self) -> tuple[int, int]:
        return self._header.queries, self._header.keys

    def read_head_vectors(self, name: str, place: LeadingIndices) -> Tensor:
        raise InputError("server", SIZE_MISMATCH_ERROR)

    def spec_at(self, place: LeadingIndices) -> AttentionSpec:
        return self._specs[place[0]] if self._specs else self.spec

    def stage(self, row: Stage, ahead: Sequence[Future[Response]] = ()) -> BlockwiseTensor:
        """Return a stage that requests its blocks when they are read.

        Parameters
        ----------
        ahead : sequence of Future
            Pending responses with previews of the first heads in the first layer, if they were
            prefetched.
        """
        vectors = self._header.vectors
        assert vectors is not None
        sizes = (*self.leading_sizes, *shape(self.spec, row.dims, self.query_key_counts()[0]))
        if row.role in VECTOR_ROLES or row.dims[-1] != "key":
            width = vectors.d_head if row.role in {Role.QUERIES, Role.KEYS} else vectors.d_value
            sizes = (*sizes[:-1], width)
        source = RemoteBlockSource(self, row, self._fetcher, self._ask)
        source.use_prefetched_previews(PreviewLayout.from_matrix_sizes(sizes), ahead)
        return BlockwiseTensor(sizes, source)


class RemoteBlockSource(BlockSource):
    """Source of the blocks of one stage; prefetches further heads if these are read in order."""

    starts_with_preview = True

    def __init__(
        self, matrices: RemoteBlockCalculator, row: Stage, fetcher: FetchedArrayCache, ask: Ask
    ) -> None:
        self._matrices, self._row, self._fetcher, self._ask = matrices, row, fetcher, ask
        self._is_of_keys = row.dims[-1] == "key" and row.role not in VECTOR_ROLES
        self._local = matrices.create_source(row) if self._is_of_keys else None
        self.is_signed = self._local.is_signed if self._local else True
        self.outside = self._local.outside if self._local else 0.0
        self._last: tuple[int, object] | None = None
        """The last requested block: the index of its head among all heads, and the block request.
        """

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("A remote source of values cannot be pickled or copied.")

    def use_prefetched_previews(
        self, first: PreviewLayout, answers: Sequence[Future[Response]]
    ) -> None:
        """Use the prefetched previews of heads in the first layer."""
        block_request = (tuple(first.rows.tolist()), 0, first.sizes[1], first.blocks[1])
        for head, answer in enumerate(answers):
            place = (0, head)[1 - len(self._matrices.leading_sizes) :]
            ahead = partial(
                _prefetched_or_fetch,
                answer,
                "high",
                partial(self._fetch_block, place, block_request),
            )
            self._fetcher.prefetch(self._cache_key(place, block_request), ahead)

    @property
    def dtype(self) -> torch.dtype:
        return self._matrices.dtype

    def columns_to_compute(self, place: LeadingIndices, rows: Tensor, columns: range) -> range:
        return self._local.columns_to_compute(place, rows, columns) if self._local else columns

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        values = self._request_values(place, rows, columns.start, columns.stop, 0).get("cells")
        return _checked_tensor(values, (len(rows), columns.stop - columns.start))

    def column_extremes(
        self, place: LeadingIndices, rows: Tensor, columns: range, block: int
    ) -> BlockExtremes:
        arrays = self._request_values(place, rows, columns.start, columns.stop, block)
        sizes = (len(rows), math.ceil(len(columns) / block))
        high = _checked_tensor(arrays.get("high"), sizes)
        return high, _checked_tensor(arrays["low"], sizes) if "low" in arrays else None

    def _request_values(
        self, place: LeadingIndices, rows: Tensor, start: int, stop: int, block: int
    ) -> dict[str, np.ndarray]:
        block_request = (tuple(rows.tolist()), start, stop, block)
        if not block and len(rows) > FETCHED_ROWS:  # the caller caches this tile
            return self._fetch_block(place, block_request)
        if block:
            self._prefetch_next_heads(
                place, block_request, 4 * len(rows) * math.ceil((stop - start) / block)
            )
        return {
            **self._fetcher.get(
                self._cache_key(place, block_request),
                partial(self._fetch_block, place, block_request),
            )
        }

    def _cache_key(self, place: LeadingIndices, block_request: _BlockRequest) -> tuple[object, ...]:
        return (self._row.name, tuple(place), *block_request)

    def _fetch_block(
        self, place: LeadingIndices, block_request: _BlockRequest
    ) -> dict[str, np.ndarray]:
        rows, start, stop, block = block_request
        return self._ask(
            "blocks",
            {"stage": self._row.name, "place": [*place], "rows": [*rows],
             "columns": [start, stop], "block": block},
        )  # fmt: skip

    def _prefetch_next_heads(
        self, place: LeadingIndices, block_request: _BlockRequest, size: int
    ) -> None:
        """Prefetch the same block for the next heads if heads are requested in order."""
        layers, heads = (*self._matrices.leading_sizes, 1)[0], self._matrices.spec.heads
        *layer, head = place
        at = (layer[0] if layer else 0) * heads + head
        is_in_turn = head == 0 or self._last == (at - 1, block_request)
        self._last = at, block_request
        end = layers * heads if size <= MAX_PREFETCHED_BYTES else at - head + heads
        for after in (
            range(at + 1, min(at + 1 + MAX_CONCURRENT_REQUESTS, end)) if is_in_turn else ()
        ):
            then = divmod(after, heads)[1 - len(layer) :]
            self._fetcher.prefetch(
                self._cache_key(then, block_request),
                partial(self._fetch_block, then, block_request),
            )


def _prefetched_or_fetch(
    answer: Future[Response], name: str, ask: Callable[[], Fetched]
) -> Fetched:
    """Return the arrays of a prefetched response; fetch them again if prefetching failed."""
    try:
        arrays = answer.result()[1]
    except InputError:
        arrays = {}
    return arrays if name in arrays else ask()


def _checked_tensor(array: np.ndarray | None, sizes: tuple[int, ...]) -> Tensor:
    """Check the shape of an array, and convert it to a tensor; as in `check_response_array`."""
    return torch.from_numpy(check_response_array(array, sizes).copy())
