"""Progress and cancellation of long-running work, through callbacks and context variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def set_context_variable(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Set a context variable within the context, and restore its previous value afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


Progress = Callable[[int, int], None]
"""Callback that receives the completed and the total amount of work; it raises `CancelledError` to
stop the work.
"""


class CancelledError(Exception):
    """Raised when work is cancelled; its partial results are discarded."""


def ignore_progress(done: int, of: int) -> None:
    """Ignore the progress."""


_is_stopped: ContextVar[Callable[[], bool]] = ContextVar("is stopped", default=lambda: False)


def cancel_when(is_stopped: Callable[[], bool]) -> AbstractContextManager[None]:
    """Within the context, cancel the work on this thread once the function returns True."""
    return set_context_variable(_is_stopped, is_stopped)


def is_cancelled() -> bool:
    """Return whether the work on this thread should stop."""
    return _is_stopped.get()()


def check_cancelled() -> None:
    """Raise `CancelledError` if the work on this thread should stop."""
    if is_cancelled():
        raise CancelledError


_is_over: ContextVar[Callable[[], bool]] = ContextVar("is over", default=lambda: False)


def abandon_wait_when(is_over: Callable[[], bool]) -> AbstractContextManager[None]:
    """Within the context, abandon all waits on this thread once the function returns True.

    The result is then no longer needed at all, unlike the result of work that is cancelled in
    favour of other work. Conditions of outer contexts also apply.
    """
    before = _is_over.get()
    return set_context_variable(_is_over, lambda: is_over() or before())


def check_wait_abandoned() -> None:
    """Raise `CancelledError` if the result that this thread waits for is no longer needed."""
    if _is_over.get()():
        raise CancelledError


_progress: ContextVar[Progress] = ContextVar("progress", default=ignore_progress)


def report_progress_to(progress: Progress) -> AbstractContextManager[None]:
    """Within the context, report the progress of the work on this thread to the callback."""
    return set_context_variable(_progress, progress)


@contextmanager
def scale_reported_progress(at: int, count: int) -> Iterator[None]:
    """Within the context, report the progress of one of ``count`` equal parts of the work."""
    report = _progress.get()

    def report_whole(done: int, of: int) -> None:
        report((at * of + done) // count, of)

    with report_progress_to(report_whole):
        yield


def report_progress(done: int, of: int) -> None:
    """Report the progress of the work on this thread."""
    _progress.get()(done, of)


REPORT_INTERVAL = 64


class ProgressCounter:
    """Counts the iterations of a loop, and reports the number of completed blocks of iterations."""

    def __init__(self, progress: Progress, of: int, block: int = 1) -> None:
        self._progress, self._total, self._block, self._done = progress, of, block, 0

    def __call__(self) -> None:
        """Count one iteration, and report the progress."""
        self._done += 1
        self._progress(-(-self._done // self._block), -(-self._total // self._block))


def scale_progress(progress: Progress, first: int, last: int) -> Progress:
    """Return a callback for the part of the work between two percentages of the whole.

    The callback reports progress in tenths: most figures are written instantly and need no finer
    steps.
    """

    def report(done: int, of: int) -> None:
        progress((first + (last - first) * done // max(1, of)) // 10, 10)

    return report
