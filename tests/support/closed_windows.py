"""Opens and closes windows of the whole program, in a process of its own, and says what stays."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import psutil
from PySide6.QtCore import QCoreApplication, QEvent

from tests.benchmarks.children import hand_over
from tests.benchmarks.stand import application, linger
from visualizer.app import window_services
from visualizer.session.document import Document
from visualizer.session.newest_request_worker import IDLE_DELAY_S
from visualizer.shell.window_manager import WindowManager

if TYPE_CHECKING:
    from visualizer.shell.window import MainWindow

WINDOWS = 4
LINGER_MS = 20
REST_MS = round(1000 * IDLE_DELAY_S) + 500
"""Memory that is used again is given back once nothing has been asked for a while."""
WARM = 2
"""Caches of fonts, icons and pictures are filled by the first windows."""
BETWEEN_RESTS = 5
NEVER = 10**9
"""More objects than are ever made."""


def main(times: int) -> dict[str, Any]:
    """Open windows and close them again, this many times once all caches are filled.

    Returns
    -------
    dict
        ``first``, ``others``: how many traces of closed windows stay in memory, of the first window
        and of the others. ``bytes``: the memory at rest, once the caches are filled and after
        each few times.
    """
    taken: list[int] = []
    with application():
        manager = WindowManager(window_services())
        first = _closed(manager, 1)
        thresholds = gc.get_threshold()
        gc.set_threshold(NEVER, NEVER, NEVER)  # what is freed is freed without a collection
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
    """Open windows and close them, and return references to what they computed."""
    traces = []
    for _ in range(count):
        window = manager.open(Document())
        _wait_for_numbers(window)
    for window in manager.all.copy():
        assert window.workspace.run
        traces.append(weakref.ref(window.workspace.run.trace))
        window.controllers.document_controller.abandon()
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
