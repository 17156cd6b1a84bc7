"""Runs requests on a worker thread; of those waiting, only the newest runs."""

from __future__ import annotations

import atexit
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, QTimer, Signal, SignalInstance

from visualizer.errors import MEMORY_ERROR, InputError, memory_error_in_words
from visualizer.progress_callback import (
    CancelledError,
    left_when,
    progress_told_to,
    stopped_when,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.progress_callback import Progress

REST_S = 2.0
"""Idle time after which `rest` is called."""
TOLD_EACH_S = 0.25
"""How often progress is told at most."""
_left: set[Worker] = set()
"""Those whose owners are gone, until their threads have ended."""


class Worker(QThread):
    """A thread with a queue of length one.

    A request is a function of values it has captured. A running request is interrupted only where
    it asks `check_stopped`: at the end, and where a newer request waits, which replaces another
    waiting one. The result, or the exception, is returned as a value on the thread that created
    the worker. That memory ran out is an `InputError`. A request may outlive whoever has asked for
    it: what it tells meanwhile goes through the worker.

    Parameters
    ----------
    rest : callable, optional
        Called on the worker's thread after an idle period and when it ends.
    """

    answered = Signal(object)
    failed = Signal(object)
    progressed = Signal(object, object, object)
    """A request that runs has told its progress: the request, and what is done of how much."""
    reported = Signal(object)
    """What a request that runs has reported, a part of its answer say."""
    _came = Signal(object, object)
    """On the worker's thread: which of the two is to be told, and with what."""

    def __init__(
        self, parent: QObject | None = None, rest: Callable[[], object] | None = None
    ) -> None:
        super().__init__(parent)
        self._rest = rest
        self._changed = threading.Condition()
        self._waiting: Callable[[], object] | None = None
        self._litter: list[list[object]] = []
        self._is_running = False
        self._undelivered = 0
        self._is_stopping = False
        self._last: Callable[[], object] | None = None
        self._came.connect(self._deliver)
        self.finished.connect(self._end)

    @property
    def is_working(self) -> bool:
        """Whether a request waits or runs, or an answer has not arrived yet; once left, never."""
        with self._changed:
            is_underway = self._is_running or self._waiting is not None or self._undelivered > 0
            return is_underway and not self._is_stopping

    @property
    def is_wanted(self) -> bool:
        """Whether a request waits, or the end is wanted."""
        return self._waiting is not None or self._is_stopping

    def ask(self, request: Callable[[], object]) -> None:
        """Queue a request, starting the thread if needed."""
        with self._changed:
            if self._is_stopping:
                return
            self._waiting = request
            self._changed.notify()
        if not self.isRunning():
            self.start()
        if not self.isRunning():  # the system makes no more threads
            with self._changed:
                self._waiting = None
                self._undelivered += 1
            refused = InputError("memory", MEMORY_ERROR)
            QTimer.singleShot(0, self, partial(self._deliver, self.failed, refused))

    def discard(self, values: list[object]) -> None:
        """Empty a list on the worker's thread, where freeing memory may take long.

        A list, since whoever drops the last reference frees the value.
        """
        if not self.isRunning():  # nothing was asked yet: nobody would empty it
            values.clear()
            return
        with self._changed:
            self._litter.append(values)
            self._changed.notify()

    def leave(self, last: Callable[[], object] | None = None) -> None:
        """Drop the waiting request and end the thread; nothing is waited for, nor told any more.

        What runs may take long, and a window that closes does not wait for it: until its thread
        has ended, the worker belongs to no parent, but to the program, which waits for it.

        Parameters
        ----------
        last : callable, optional
            Called on the thread at its end.
        """
        if self._is_stopping:
            return
        self.setParent(None)
        _left.add(self)
        self.destroyed.connect(partial(_left.discard, self))
        has_begun = self.isRunning()
        with self._changed:
            self._waiting, self._last, self._is_stopping = None, last, True
            self._changed.notify()
        if last and not has_begun:
            self.start()
            has_begun = self.isRunning() or self.isFinished()
            if not has_begun:  # the system makes no more threads
                last()
        if not has_begun:
            self._end()

    def _end(self) -> None:
        """Delete it once its thread has ended after it was left."""
        if self in _left:
            self.deleteLater()

    def report(self, value: object) -> None:
        """Report something; called by a request that runs."""
        if not self._is_stopping:
            self.reported.emit(value)

    def run(self) -> None:
        while not self._is_stopping:
            if self._rest and not self._is_wanted_within(REST_S):
                self._rest()
            litter, request = self._next()
            for values in litter:
                values.clear()
            if request:
                self._answer(request)
            del request  # and what it has captured
        for values in self._litter:
            values.clear()
        if self._last:
            self._last()
        if self._rest:
            self._rest()

    def _answer(self, request: Callable[[], object]) -> None:
        try:
            with (
                stopped_when(lambda: self.is_wanted),
                left_when(lambda: self._is_stopping),
                progress_told_to(self._teller(request)),
            ):
                answer = request()
        except CancelledError as error:
            # Its frames hold what was computed: that is freed here, and not where it is told.
            self._tell(self.failed, error.with_traceback(None))
        except Exception as error:  # noqa: BLE001 - handed to the GUI thread
            self._tell(self.failed, memory_error_in_words(error))
        else:
            self._tell(self.answered, answer)

    def _teller(self, request: Callable[[], object]) -> Progress:
        last = monotonic()  # what is soon done tells nothing

        def tell(done: int, of: int) -> None:
            nonlocal last
            if monotonic() - last >= TOLD_EACH_S:
                last = monotonic()
                self.progressed.emit(request, done, of)

        return tell

    def _is_wanted(self) -> bool:
        return bool(self._waiting or self._litter or self._is_stopping)

    def _is_wanted_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(self._is_wanted, seconds)

    def _next(self) -> tuple[list[list[object]], Callable[[], object] | None]:
        with self._changed:
            self._changed.wait_for(self._is_wanted)
            request, self._waiting = self._waiting, None
            litter, self._litter = self._litter, []
            self._is_running = request is not None
            return litter, request

    def _tell(self, told: SignalInstance, answer: object) -> None:
        with self._changed:
            self._is_running = False
            self._undelivered += 1
        if not self._is_stopping:
            self._came.emit(told, answer)

    def _deliver(self, told: SignalInstance, answer: object) -> None:
        """Tell an answer on the thread that created the worker.

        All are told in one call: from elsewhere it is either under way or taken.
        """
        with self._changed:
            self._undelivered -= 1
        if not self._is_stopping:
            told.emit(answer)


@atexit.register
def wait_for_left_workers() -> None:
    """Wait until the threads of all workers that were left have ended, as the program ends."""
    for worker in _left:
        worker.wait()
