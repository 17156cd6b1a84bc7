"""Worker thread that runs requests; a new request replaces the waiting one."""

from __future__ import annotations

import atexit
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, QTimer, Signal, SignalInstance

from visualizer.errors import MEMORY_ERROR, InputError, convert_memory_error
from visualizer.progress import (
    CancelledError,
    abandon_wait_when,
    cancel_when,
    report_progress_to,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.progress import Progress

IDLE_DELAY_S = 2.0
"""Idle time, in seconds, after which `on_idle` is called."""
PROGRESS_INTERVAL_S = 0.25
"""Minimum interval between progress reports, in seconds."""
_abandoned_workers: set[NewestRequestWorker] = set()
"""Abandoned workers with threads that are still running."""


class NewestRequestWorker(QThread):
    """A thread with a queue of length one.

    A request is a callable without arguments. A new request replaces the one that is waiting. A
    running request is interrupted only when it calls `check_cancelled`, if a newer request is
    waiting or the worker is ending. Signals deliver the result or the exception on the thread
    that created the worker; running out of memory is reported as an `InputError`. A request may
    outlive the object that made it, so it reports everything through the worker.

    Parameters
    ----------
    on_idle : callable, optional
        Called on the worker's thread after an idle period and when the thread ends.
    """

    answered = Signal(object)
    failed = Signal(object)
    progressReported = Signal(object, object, object)
    """Emitted with a running request, the number of its completed steps, and the total."""
    reported = Signal(object)
    """Emitted with a value that a running request reported, such as a part of its result."""
    _delivery_queued = Signal(object, object)
    """Emitted on the worker's thread with the signal to emit on the owner's thread, and its
    argument.
    """

    def __init__(
        self, parent: QObject | None = None, on_idle: Callable[[], object] | None = None
    ) -> None:
        super().__init__(parent)
        self._on_idle = on_idle
        self._changed = threading.Condition()
        self._waiting: Callable[[], object] | None = None
        self._discarded: list[list[object]] = []
        self._is_running = False
        self._undelivered = 0
        self._is_stopping = False
        self._last: Callable[[], object] | None = None
        self._delivery_queued.connect(self._deliver)
        self.finished.connect(self._delete_if_abandoned)

    @property
    def is_working(self) -> bool:
        """Whether a request or its result is pending; false after `leave`."""
        with self._changed:
            is_underway = self._is_running or self._waiting is not None or self._undelivered > 0
            return is_underway and not self._is_stopping

    @property
    def has_newer_request(self) -> bool:
        """Whether a request is waiting or the worker is ending."""
        return self._waiting is not None or self._is_stopping

    def submit(self, request: Callable[[], object]) -> None:
        """Queue a request, starting the thread if needed."""
        with self._changed:
            if self._is_stopping:
                return
            self._waiting = request
            self._changed.notify()
        if not self.isRunning():
            self.start()
        if not self.isRunning():  # the system cannot create another thread
            with self._changed:
                self._waiting = None
                self._undelivered += 1
            refused = InputError("memory", MEMORY_ERROR)
            QTimer.singleShot(0, self, partial(self._deliver, self.failed, refused))

    def clear_on_thread(self, values: list[object]) -> None:
        """Clear a list on the worker's thread, because freeing its values may take a long time.

        The values are passed in a list because the thread that drops the last reference frees a
        value.
        """
        if not self.isRunning():  # the thread has not started, so it would not clear the list
            values.clear()
            return
        with self._changed:
            self._discarded.append(values)
            self._changed.notify()

    def abandon(self, last: Callable[[], object] | None = None) -> None:
        """Drop the waiting request and end the thread without waiting; no more signals are emitted.

        A running request may take a long time, and a closing window does not wait for it. Until its
        thread has ended, the worker is kept without a parent; at exit, the program waits for it.

        Parameters
        ----------
        last : callable, optional
            Called on the thread when it ends.
        """
        if self._is_stopping:
            return
        self.setParent(None)
        _abandoned_workers.add(self)
        self.destroyed.connect(partial(_abandoned_workers.discard, self))
        has_started = self.isRunning()
        with self._changed:
            self._waiting, self._last, self._is_stopping = None, last, True
            self._changed.notify()
        if last and not has_started:
            self.start()
            has_started = self.isRunning() or self.isFinished()
            if not has_started:  # the system cannot create another thread
                last()
        if not has_started:
            self._delete_if_abandoned()

    def _delete_if_abandoned(self) -> None:
        """Delete an abandoned worker after its thread has ended."""
        if self in _abandoned_workers:
            self.deleteLater()

    def report(self, value: object) -> None:
        """Emit `reported`; called by a running request."""
        if not self._is_stopping:
            self.reported.emit(value)

    def run(self) -> None:
        while not self._is_stopping:
            if self._on_idle and not self._has_work_within(IDLE_DELAY_S):
                self._on_idle()
            litter, request = self._wait_for_request()
            for values in litter:
                values.clear()
            if request:
                self._run_request(request)
            del request  # also frees the values that the request captured
        for values in self._discarded:
            values.clear()
        if self._last:
            self._last()
        if self._on_idle:
            self._on_idle()

    def _run_request(self, request: Callable[[], object]) -> None:
        try:
            with (
                cancel_when(lambda: self.has_newer_request),
                abandon_wait_when(lambda: self._is_stopping),
                report_progress_to(self._progress_reporter(request)),
            ):
                answer = request()
        except CancelledError as error:
            # The traceback keeps computed values alive; free them here, not on the GUI thread.
            self._queue_delivery(self.failed, error.with_traceback(None))
        except Exception as error:  # noqa: BLE001 - reported on the GUI thread
            self._queue_delivery(self.failed, convert_memory_error(error))
        else:
            self._queue_delivery(self.answered, answer)

    def _progress_reporter(self, request: Callable[[], object]) -> Progress:
        last = monotonic()  # short requests report no progress

        def report_progress(done: int, of: int) -> None:
            nonlocal last
            if monotonic() - last >= PROGRESS_INTERVAL_S:
                last = monotonic()
                self.progressReported.emit(request, done, of)

        return report_progress

    def _has_work(self) -> bool:
        return bool(self._waiting or self._discarded or self._is_stopping)

    def _has_work_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(self._has_work, seconds)

    def _wait_for_request(self) -> tuple[list[list[object]], Callable[[], object] | None]:
        with self._changed:
            self._changed.wait_for(self._has_work)
            request, self._waiting = self._waiting, None
            litter, self._discarded = self._discarded, []
            self._is_running = request is not None
            return litter, request

    def _queue_delivery(self, signal: SignalInstance, answer: object) -> None:
        with self._changed:
            self._is_running = False
            self._undelivered += 1
        if not self._is_stopping:
            self._delivery_queued.emit(signal, answer)

    def _deliver(self, signal: SignalInstance, answer: object) -> None:
        """Emit a result on the thread that created the worker.

        The counter is updated and the signal emitted in one call, so that a result is always either
        undelivered or handled.
        """
        with self._changed:
            self._undelivered -= 1
        if not self._is_stopping:
            signal.emit(answer)


@atexit.register
def join_abandoned_workers() -> None:
    """Wait at exit until the threads of all abandoned workers have ended."""
    for worker in _abandoned_workers:
        worker.wait()
