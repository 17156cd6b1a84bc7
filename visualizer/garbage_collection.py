"""When Python's garbage is collected, where a window's thread does so between events.

Python collects on whichever thread happens to make an object. What Qt knows of a widget would then
be freed on a thread that does not own it, while the window's thread may be using it, and the
program would end without a trace. Source: Qt 6, "Threads and QObjects"; PySide 6.11 deletes such
objects where they are found.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_MS = 500
"""So often the window's thread is to look whether there may be enough garbage."""

_held_off: list[None] = []
"""One for each work during which nothing is collected."""


def collect_due_garbage() -> None:
    """Collect the oldest generation that is due by Python's own thresholds, and younger ones."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    due = [at for at, count in enumerate(counts) if count > thresholds[at]]
    if due and not _held_off:
        gc.collect(max(due))


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
