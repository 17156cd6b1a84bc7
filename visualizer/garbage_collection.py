"""Garbage collection that runs on the GUI thread, between events.

Python collects on whichever thread happens to allocate an object. Widgets in the garbage could then
be destroyed on a thread that does not own them, while the GUI thread uses them. Sources: Qt 6,
"Threads and QObjects"; PySide 6.11 destroys the objects of Python classes on the thread that
collects them.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 1.0
"""Timeout of a collection, in seconds: the collecting thread may itself be waiting."""

_collectors: list[Callable[[Event], None]] = []
"""Function that requests a collection and then sets an event; empty if Python collects itself."""
_suspensions: list[None] = []
"""One entry per context in which collection is suspended."""


def collect_by(collector: Callable[[Event], None]) -> None:
    """Disable automatic collection and use a function that can be called from any thread."""
    gc.disable()
    _collectors[:] = [collector]


def collect_garbage() -> None:
    """Collect all garbage on the collecting thread, and wait for it."""
    if not _collectors:
        gc.collect()
        return
    is_done = Event()
    _collectors[0](is_done)
    is_done.wait(WAIT_S)


def is_held_off() -> bool:
    """Whether collection is currently suspended."""
    return bool(_suspensions)


@contextmanager
def left_out_of_collections() -> Iterator[None]:
    """Exclude all objects created within the context from garbage collection, permanently.

    The objects of large imports are permanent; scanning them would block the window, both during
    the import and in every later collection.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    _suspensions.append(None)
    try:
        yield
    finally:
        gc.freeze()
        _suspensions.pop()
        if was_enabled:
            gc.enable()
