"""Interruption of work without a window by signals."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
STOPPED = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
"""Exit status by signal name; SIGHUP (a terminal closes) does not exist on Windows."""


class InterruptedRunError(KeyboardInterrupt):
    """A signal asks the program to end."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal by ending the work wherever it is."""
    raise InterruptedRunError(STOPPED[signal.Signals(number).name])


@contextmanager
def stoppable(stop: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let the signals of `STOPPED` end the work, except those that the parent process ignores."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signal handlers can be set in the main thread only
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
