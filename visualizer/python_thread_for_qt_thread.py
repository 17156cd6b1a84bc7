"""Runs work of a Qt thread on a Python thread."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from visualizer.progress_callback import CancelledError, check_left

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
LOOK_S = 0.02
"""Interval in seconds at which the waiting thread checks whether the work is still needed."""


def on_python_thread(work: Callable[[], Value], *, may_be_left: bool = False) -> Value:
    """Run work on a new Python thread, wait for it, and return its result or raise its error.

    Python permanently keeps an entry for a foreign thread as soon as a library asks for the current
    thread. Also, the garbage of large imports keeps the frames of their callers alive.

    Parameters
    ----------
    may_be_left : bool
        Whether to stop waiting as determined by `left_when`, leaving the thread to finish; the work
        may be waiting for another machine.

    Raises
    ------
    CancelledError
        If waiting was abandoned.
    """
    is_done, is_left = Event(), Event()
    results: list[Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            errors.append(error)
        is_done.set()
        if is_left.is_set():  # a reference cycle through the traceback would keep the work's data
            results.clear()
            errors.clear()

    # Joining the thread, or asking whether it is a daemon, would also create such an entry.
    Thread(target=run, daemon=True).start()
    try:
        while not is_done.wait(LOOK_S if may_be_left else None):
            check_left()
    except CancelledError:
        is_left.set()
        errors.clear()  # the work may have failed just now
        raise
    if errors:
        raise errors.pop()  # its traceback holds this frame, which must not hold the error
    return results[0]
