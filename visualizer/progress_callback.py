"""Progress callbacks of long work, which may also cancel it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from visualizer.context_value import held_within

Progress = Callable[[int, int], None]
"""Called with the done and the total amount; raises `CancelledError` to stop the work."""


class CancelledError(Exception):
    """The work is cancelled and its partial results are discarded."""


def no_progress(done: int, of: int) -> None:
    """No-op progress callback."""


_is_stopped: ContextVar[Callable[[], bool]] = ContextVar("is stopped", default=lambda: False)


def stopped_when(is_stopped: Callable[[], bool]) -> AbstractContextManager[None]:
    """Have long work on this thread within the context stop when that is so."""
    return held_within(_is_stopped, is_stopped)


def is_to_stop() -> bool:
    """Whether the work on this thread is to stop."""
    return _is_stopped.get()()


def check_stopped() -> None:
    """Raise `CancelledError` where the work on this thread is to stop."""
    if is_to_stop():
        raise CancelledError


_is_over: ContextVar[Callable[[], bool]] = ContextVar("is over", default=lambda: False)


def left_when(is_over: Callable[[], bool]) -> AbstractContextManager[None]:
    """Have waits on this thread within the context end, whatever for, when that is so.

    Unlike work that stops for other work, nobody wants what is waited for any more. What ends them
    outside the context does so within it, too.
    """
    before = _is_over.get()
    return held_within(_is_over, lambda: is_over() or before())


def check_left() -> None:
    """Raise `CancelledError` where nobody wants any more what this thread waits for."""
    if _is_over.get()():
        raise CancelledError


_progress: ContextVar[Progress] = ContextVar("progress", default=no_progress)


def progress_told_to(progress: Progress) -> AbstractContextManager[None]:
    """Have long work on this thread within the context tell its progress."""
    return held_within(_progress, progress)


@contextmanager
def progress_of_part(at: int, count: int) -> Iterator[None]:
    """Have work within the context tell its progress as one of so many equal parts of a whole."""
    tell = _progress.get()

    def tell_of_whole(done: int, of: int) -> None:
        tell((at * of + done) // count, of)

    with progress_told_to(tell_of_whole):
        yield


def tell_progress(done: int, of: int) -> None:
    """Tell the progress of the work on this thread."""
    _progress.get()(done, of)


BLOCK = 64


class ProgressCounter:
    """Counts the iterations of a loop and reports them in blocks."""

    def __init__(self, progress: Progress, of: int, block: int = 1) -> None:
        self._progress, self._of, self._block, self._done = progress, of, block, 0

    def __call__(self) -> None:
        """Count one iteration and report the progress."""
        self._done += 1
        self._progress(-(-self._done // self._block), -(-self._of // self._block))


def part_of_progress(progress: Progress, first: int, last: int) -> Progress:
    """Return a callback for the part of the work between two percentages of the whole.

    It reports in tenths: most figures are written at once and need no finer steps.
    """

    def tell(done: int, of: int) -> None:
        progress((first + (last - first) * done // max(1, of)) // 10, 10)

    return tell
