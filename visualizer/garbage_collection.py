"""When Python's garbage is collected, where a window's thread does so between events.

Python collects on whichever thread happens to make an object. Widgets among the garbage could then
be destroyed on a thread that does not own them, while the window's thread uses them. Source: Qt 6,
"Threads and QObjects"; PySide 6.11 destroys objects of Python's classes where they are found.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 1.0
"""So long a collection is waited for: who is to collect may be waiting, too."""

_collectors: list[Callable[[Event], None]] = []
"""What has garbage collected, and then sets an event; empty where Python collects by itself."""
_held_off: list[None] = []
"""One for each work during which nothing is collected."""


def collect_by(collector: Callable[[Event], None]) -> None:
    """Have garbage collected by something that can be called on any thread, and not by Python."""
    gc.disable()
    _collectors[:] = [collector]


def collect_garbage() -> None:
    """Collect all garbage, on the thread that does so, and wait for that."""
    if not _collectors:
        gc.collect()
        return
    is_done = Event()
    _collectors[0](is_done)
    is_done.wait(WAIT_S)


def is_held_off() -> bool:
    """Whether nothing is to be collected for now."""
    return bool(_held_off)


@contextmanager
def left_out_of_collections() -> Iterator[None]:
    """Have garbage collection never look at what is made meanwhile.

    The objects of large imports are permanent; scanning them would hold up the window, while they
    are made and ever after.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    _held_off.append(None)
    try:
        yield
    finally:
        gc.freeze()
        _held_off.pop()
        if was_enabled:
            gc.enable()
