"""Numbers of a run that were fetched from a server, and those that are on their way."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from visualizer.attention.numbers_elsewhere import (
    NumbersOnTheirWayError,
    may_wait,
    numbers_arrived,
)
from visualizer.errors import InputError
from visualizer.progress_callback import CancelledError, check_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np

    Fetched = Mapping[str, np.ndarray]

MAX_CACHED_BYTES = 2**28
"""Bytes of fetched numbers that are kept; those that were used longest ago go first."""
AGAIN_S = 3.0
"""So long what could not be fetched is not asked for again by itself."""
AT_ONCE = 12
"""So many requests are under way before others: a slow line that loses packets carries more in
several connections than in one."""
WAIT_S = 0.1
"""After so long it is looked whether the work that waits is to stop."""
FETCHING = "numbers from a server"
"""The name of the threads that fetch."""


class FetchedNumbers:
    """Fetches numbers once, at once or meanwhile, and keeps them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Fetched] = OrderedDict()
        self._bytes = 0
        self._under_way: set[Hashable] = set()
        self._awaited: set[Hashable] = set()
        """Those whose arrival is to be told."""
        self._failed: dict[Hashable, float] = {}
        self._refusal: InputError | None = None
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)

    def get(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        """Return numbers by their key; `fetch` asks for them where they are not here.

        Raises
        ------
        InputError
            As `fetch` does, where they are waited for.
        NumbersOnTheirWayError
            Where they are not; they are fetched meanwhile, and their arrival is told.
        """
        with self._lock:
            while True:
                found = self._kept.get(key)
                if found is not None:
                    self._kept.move_to_end(key)
                    return found
                if not may_wait():
                    self._awaited.add(key)
                    self._begin(key, fetch)
                    raise NumbersOnTheirWayError
                if key not in self._under_way:
                    self._under_way.add(key)
                    break
                self._came.wait(WAIT_S)
                check_stopped()
        return self._fetched(key, fetch)

    def refusal(self) -> InputError | None:
        """Return why numbers cannot be had; None where those that were asked for last have come."""
        return self._refusal

    def fetch_ahead(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        """Begin to fetch numbers that are likely asked for next, unless much is under way."""
        with self._lock:
            if key not in self._kept and len(self._under_way) < AT_ONCE:
                self._begin(key, fetch)

    def has(self, key: Hashable) -> bool:
        """Whether numbers are here."""
        return key in self._kept

    def _begin(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        is_late = monotonic() - self._failed.get(key, 0.0) < AGAIN_S and key in self._failed
        if key not in self._under_way and not is_late:
            self._under_way.add(key)
            thread = threading.Thread(
                target=self._fetch, args=(key, fetch), name=FETCHING, daemon=True
            )
            thread.start()

    def _fetch(self, key: Hashable, fetch: Callable[[], Fetched]) -> None:
        with suppress(InputError):  # its arrival tells of it
            self._fetched(key, fetch)

    def _fetched(self, key: Hashable, fetch: Callable[[], Fetched]) -> Fetched:
        try:
            found = fetch()
            self.keep(key, found)
            self._refusal = None
            return found
        except CancelledError:
            raise  # who asked wants something else; the next one asks again
        except Exception as error:
            self._failed[key] = monotonic()
            if isinstance(error, InputError):
                self._refusal = InputError(error.field, error.sentence)  # without its frames
            raise
        finally:
            self._end(key)

    def _end(self, key: Hashable) -> None:
        with self._lock:
            self._under_way.discard(key)
            is_awaited = key in self._awaited
            self._awaited.discard(key)
            self._came.notify_all()
        if is_awaited:
            numbers_arrived()

    def keep(self, key: Hashable, found: Fetched) -> None:
        """Keep numbers that have come."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += _bytes(found)
            self._failed.pop(key, None)
            while self._bytes > MAX_CACHED_BYTES and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= _bytes(gone)


def _bytes(found: Fetched) -> int:
    return sum(array.nbytes for array in found.values())
