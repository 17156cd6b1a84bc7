"""Runs Python's garbage collection on the GUI thread, between events."""

from __future__ import annotations

import gc
from threading import Event

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer, Signal

from visualizer.runtime import collect_by, is_held_off

CHECK_INTERVAL_MS = 500
"""Interval at which the number of new objects is compared with Python's threshold."""
YOUNG_COLLECTIONS, OLDER_COLLECTIONS = 10, 10
"""Youngest-generation collections per middle one, and middle collections per full one."""


class GarbageCollector(QObject):
    """Replaces Python's automatic collection during the lifetime of an application.

    Parameters
    ----------
    delay_ms : int
        Delay before the first collection: nearly all objects created at startup are permanent.
    """

    _wanted = Signal(Event)

    def __init__(self, application: QCoreApplication, delay_ms: int) -> None:
        super().__init__(application)
        self._count = 0
        self._wanted.connect(self._collect_all)
        collect_by(self._wanted.emit)
        timer = QTimer(self, interval=CHECK_INTERVAL_MS, timerType=Qt.TimerType.CoarseTimer)
        timer.timeout.connect(self.look)
        QTimer.singleShot(delay_ms, timer, timer.start)

    def look(self) -> None:
        """Collect if there are enough new objects; periodically include older generations."""
        if gc.get_count()[0] > gc.get_threshold()[0] and not is_held_off():
            self._count += 1
            is_of_older = self._count % YOUNG_COLLECTIONS == 0
            is_of_all = self._count % (YOUNG_COLLECTIONS * OLDER_COLLECTIONS) == 0
            gc.collect(is_of_older + is_of_all)

    def _collect_all(self, is_done: Event) -> None:
        gc.collect()
        is_done.set()
