"""Opens and closes windows of the whole program in a separate process, and reports what remains."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import psutil
from PySide6.QtCore import QCoreApplication, QEvent

from tests.benchmarks.children import hand_over
from tests.benchmarks.stand import application, linger
from visualizer.app import create_window_services
from visualizer.session import newest_request_worker
from visualizer.session.document import Document
from visualizer.shell.window_manager import WindowManager

if TYPE_CHECKING:
    from visualizer.shell.window import MainWindow

WINDOWS = 4
LINGER_MS = 20
IDLE_DELAY_S = 0.2
"""Idle time, in seconds, after which a worker returns memory; in the program, it is longer."""
REST_MS = round(1000 * IDLE_DELAY_S) + 500
"""Time, in milliseconds, to wait until reusable memory has been returned to the system."""
WARM = 2
"""Number of warm-up rounds; the first windows fill caches of fonts, icons and pictures."""
BETWEEN_RESTS = 5
NEVER = 10**9
"""More objects than are ever created."""


def main(times: int) -> dict[str, Any]:
    """Fill all caches, then open and close windows this many times.

    Returns
    -------
    dict
        ``first``, ``others``: number of traces of closed windows that remain in memory, for the
        first window and for all others. ``bytes``: memory use at rest, after the caches have been
        filled and after every few rounds.
    """
    taken: list[int] = []
    newest_request_worker.IDLE_DELAY_S = IDLE_DELAY_S
    with application():
        manager = WindowManager(create_window_services())
        first = _closed(manager, 1)
        thresholds = gc.get_threshold()
        gc.set_threshold(NEVER, NEVER, NEVER)  # everything must be freed without a collection
        others = _closed(manager, 2)
        kept = {"first": _alive(first), "others": _alive(others)}
        gc.set_threshold(*thresholds)
        for number in range(-WARM, times):
            _closed(manager, WINDOWS)
            if number % BETWEEN_RESTS == BETWEEN_RESTS - 1:
                gc.collect()
                linger(REST_MS)
                taken.append(psutil.Process().memory_info().rss)
    return {**kept, "bytes": taken}


def _closed(manager: WindowManager, count: int) -> list[weakref.ref[Any]]:
    """Open and close windows, and return references to their traces."""
    traces = []
    for _ in range(count):
        window = manager.open_window(Document())
        _wait_for_numbers(window)
    for window in manager.all.copy():
        assert window.workspace.run
        traces.append(weakref.ref(window.workspace.run.trace))
        window.controllers.document_controller.discard_unsaved_changes()
        window.close()
    del window
    linger(LINGER_MS)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    linger(LINGER_MS)
    return traces


def _wait_for_numbers(window: MainWindow) -> None:
    while window.workspace.is_working or window.workspace.run is None:
        linger(LINGER_MS)
    linger(LINGER_MS)


def _alive(references: list[weakref.ref[Any]]) -> int:
    return sum(each() is not None for each in references)


if __name__ == "__main__":
    hand_over(main(int(sys.argv[1])))
