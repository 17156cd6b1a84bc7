"""Cache of a run's tensors that are fetched from a server."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from visualizer.attention.remote_numbers import (
    NumbersPendingError,
    may_wait,
    report_arrival,
)
from visualizer.errors import InputError
from visualizer.progress import CancelledError, check_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np

    Fetched = Mapping[str, np.ndarray]

MAX_CACHED_BYTES = 2**28
"""Maximum size of the cache; the least recently used entries are dropped first."""
RETRY_S = 3.0
"""Time before a failed request is retried automatically."""
MAX_CONCURRENT_REQUESTS = 12
"""Maximum number of concurrent prefetch requests: a slow connection that loses packets transfers
more over several connections than over one.
"""
CANCEL_CHECK_INTERVAL_S = 0.1
"""Time between two cancellation checks while waiting."""
THREAD_NAME = "fetch from model server"
"""Name of the threads that fetch."""


class FetchedNumbers:
    """Fetches arrays once, either immediately or in the background, and caches them."""

    def __init__(self) -> None:
        self._cached: OrderedDict[Hashable, Fetched] = OrderedDict()
        self._cached_bytes = 0
        self._under_way: set[Hashable] = set()
        self._awaited: set[Hashable] = set()
        """Keys with an announcement when their arrays arrive."""
        self._failed: dict[Hashable, float] = {}
        self._refusal: InputError | None = None
        self._lock = threading.Lock()
        self._fetch_ended = threading.Condition(self._lock)

    def get(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        """Return the arrays of a key, calling `fetch` if they are not cached.

        Raises
        ------
        InputError
            As `fetch`, if the caller may wait.
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
                    self._awaited.add(key)
                    self._start_fetch(key, fetch)
                    raise NumbersPendingError
                if key not in self._under_way:
                    self._under_way.add(key)
                    break
                self._fetch_ended.wait(CANCEL_CHECK_INTERVAL_S)
                check_stopped()
        return self._fetch_and_store(key, fetch)

    def refusal(self) -> InputError | None:
        """Return the error of the last request; None if it succeeded."""
        return self._refusal

    def prefetch(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        """Prefetch arrays that are likely needed next, unless many requests are in progress."""
        with self._lock:
            if key not in self._cached and len(self._under_way) < MAX_CONCURRENT_REQUESTS:
                self._start_fetch(key, fetch)

    def has(self, key: Hashable) -> bool:
        """Whether the arrays of a key are cached."""
        return key in self._cached

    def _start_fetch(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        has_failed_recently = (
            monotonic() - self._failed.get(key, 0.0) < RETRY_S and key in self._failed
        )
        if key not in self._under_way and not has_failed_recently:
            self._under_way.add(key)
            thread = threading.Thread(
                target=self._fetch_quietly, args=(key, fetch), name=THREAD_NAME, daemon=True
            )
            thread.start()

    def _fetch_quietly(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        with suppress(InputError):  # reported when the arrival is announced
            self._fetch_and_store(key, fetch)

    def _fetch_and_store(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        try:
            arrays = fetch()
            self.keep(key, arrays)
            self._refusal = None
            return arrays
        except CancelledError:
            raise  # the caller no longer needs it; the next one fetches again
        except Exception as error:
            self._failed[key] = monotonic()
            if isinstance(error, InputError):
                self._refusal = InputError(error.field, error.sentence)  # without its frames
            raise
        finally:
            self._finish_fetch(key)

    def _finish_fetch(self, key: Hashable) -> None:
        with self._lock:
            self._under_way.discard(key)
            is_awaited = key in self._awaited
            self._awaited.discard(key)
            self._fetch_ended.notify_all()
        if is_awaited:
            report_arrival()

    def keep(self, key: Hashable, arrays: Fetched) -> None:
        """Cache arrays that have arrived."""
        with self._lock:
            if key not in self._cached:
                self._cached[key] = arrays
                self._cached_bytes += _total_bytes(arrays)
            self._failed.pop(key, None)
            while self._cached_bytes > MAX_CACHED_BYTES and len(self._cached) > 1:
                _, gone = self._cached.popitem(last=False)
                self._cached_bytes -= _total_bytes(gone)


def _total_bytes(arrays: Fetched) -> int:
    return sum(array.nbytes for array in arrays.values())
