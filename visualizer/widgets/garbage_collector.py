"""Runs Python's garbage collection on the GUI thread, as in ``pyqtgraph.util.garbage_collector``.

PySide destroys a widget on the thread that garbage-collects it; on any thread other than the GUI
thread, this crashes the program.
"""

from __future__ import annotations

import gc
from threading import Event

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from visualizer.process_settings import is_garbage_collection_suspended, set_garbage_collector

CHECK_INTERVAL_MS = 500
"""Interval, in milliseconds, at which the number of new objects is checked."""


class GarbageCollector(QObject):
    """Replacement for automatic garbage collection; the first collection runs after `delay_ms`."""

    _wanted = Signal(Event)

    def __init__(self, application: QCoreApplication, delay_ms: int) -> None:
        super().__init__(application)
        self._count = 0
        self._wanted.connect(self._collect_all)
        set_garbage_collector(self._wanted.emit)
        timer = QTimer(self, interval=CHECK_INTERVAL_MS)
        timer.timeout.connect(self.collect_if_needed)
        QTimer.singleShot(delay_ms, timer, timer.start)  # objects created at startup are permanent

    def collect_if_needed(self) -> None:
        """Collect if there are enough new objects; every tenth time, collect older ones as well."""
        if gc.get_count()[0] > gc.get_threshold()[0] and not is_garbage_collection_suspended():
            self._count += 1
            gc.collect((self._count % 10 == 0) + (self._count % 100 == 0))

    def _collect_all(self, is_done: Event) -> None:
        gc.collect()
        is_done.set()
