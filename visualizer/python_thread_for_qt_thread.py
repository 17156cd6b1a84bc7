"""Runs work on a thread of Python's own, for a thread that Qt has made."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from visualizer.progress_callback import CancelledError, check_left

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
LOOK_S = 0.02
"""So often who waits looks whether the work is still wanted."""


def on_python_thread(work: Callable[[], Value], *, may_be_left: bool = False) -> Value:
    """Run work on a thread of its own, wait for it, and return or raise what it does.

    Libraries that ask which thread they run on have Python keep an entry of a thread that is not
    its own, for ever; and the garbage of large imports holds the frames of their callers.

    Parameters
    ----------
    may_be_left : bool
        Whether the work, which may wait for another machine, is left to itself as `left_when` says.

    Raises
    ------
    CancelledError
        When it was left.
    """
    is_done, is_left = Event(), Event()
    results: list[Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)
        is_done.set()
        if is_left.is_set():  # a cycle by the error's traceback would keep what it was working on
            results.clear()
            errors.clear()

    # To join it, or to ask whether it is a daemon, would have Python keep such an entry, too.
    Thread(target=run, daemon=True).start()
    try:
        while not is_done.wait(LOOK_S if may_be_left else None):
            check_left()
    except CancelledError:
        is_left.set()
        errors.clear()  # it may have ended just now
        raise
    if errors:
        raise errors.pop()  # its traceback holds this frame, which must not hold it
    return results[0]
