"""Signal handling for work without a window."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
STOPPED = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
"""Exit status by signal name; SIGHUP (the terminal closes) does not exist on Windows."""


class InterruptedRunError(KeyboardInterrupt):
    """A signal asks the program to exit."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal by interrupting the work immediately."""
    raise InterruptedRunError(STOPPED[signal.Signals(number).name])


@contextmanager
def stoppable(stop: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle the signals in `STOPPED` with a function, except those that the parent ignores."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows signal handlers in the main thread only
        return
    before = {}
    for name in STOPPED:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
