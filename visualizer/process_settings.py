"""Settings of the process: garbage collection, Python threads, memory allocation and signals."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, NoReturn, TypeVar

from visualizer.progress import CancelledError, check_wait_abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

Value = TypeVar("Value")
POLL_INTERVAL_S = 0.02
"""Interval, in seconds, at which the waiting thread checks whether the result is still needed."""


def run_in_thread(work: Callable[[], Value], *, can_abandon: bool = False) -> Value:
    """Run work on a new Python thread, wait for it, and return its result or raise its error.

    Python up to 3.12.0 permanently keeps an entry for a Qt thread in which a library has asked for
    the current thread. Also, garbage created by large imports keeps the frames of the importing
    functions alive.

    Parameters
    ----------
    can_abandon : bool
        Whether to stop waiting when the function passed to `abandon_wait_when` returns True. The
        thread then continues in the background; for example, it may be waiting for another machine.

    Raises
    ------
    CancelledError
        If the wait was abandoned.
    """
    is_done, is_abandoned = Event(), Event()
    results: list[Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            errors.append(error)
        is_done.set()
        if is_abandoned.is_set():
            # A reference cycle through the traceback would keep the work's data.
            results.clear()
            errors.clear()

    # Joining the thread, or querying whether it is a daemon thread, would also create such an
    # entry.
    Thread(target=run, daemon=True).start()
    try:
        while not is_done.wait(POLL_INTERVAL_S if can_abandon else None):
            check_wait_abandoned()
    except CancelledError:
        is_abandoned.set()
        errors.clear()  # the work may have failed in the meantime
        raise
    if errors:
        # The error's traceback refers to this frame, which must not refer to the error.
        raise errors.pop()
    return results[0]


COLLECTION_TIMEOUT_S = 1.0
"""Maximum time to wait for a collection, in seconds; the collecting thread may itself be waiting.
"""

collectors: list[Callable[[Event], None]] = []
"""The function that requests a collection and then sets an event; empty if collection is automatic.
"""
_suspensions: list[None] = []
"""One entry for each active context in which collection is suspended."""


def set_garbage_collector(collector: Callable[[Event], None]) -> None:
    """Disable automatic collection, and use a function that can be called from any thread.

    PySide destroys a widget on the thread that garbage-collects it; on any thread other than the
    GUI thread, this causes a crash.
    """
    gc.disable()
    collectors[:] = [collector]


def collect_garbage() -> None:
    """Collect all garbage on the collecting thread, and wait until this has been done."""
    if not collectors:
        gc.collect()
        return
    is_done = Event()
    collectors[0](is_done)
    is_done.wait(COLLECTION_TIMEOUT_S)


def is_garbage_collection_suspended() -> bool:
    """Return whether collection is currently suspended."""
    return bool(_suspensions)


@contextmanager
def exclude_from_garbage_collection() -> Iterator[None]:
    """Permanently exclude all objects created within the context from garbage collection.

    The objects created by large imports are permanent. Importing torch and a Transformers model
    creates 360,000 objects. With these objects, a full collection takes 400 ms, during which the
    window does not respond; without them, it takes less than 1 ms.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    _suspensions.append(None)
    try:
        yield
    finally:
        gc.freeze()
        _suspensions.pop()
        if was_enabled:
            gc.enable()


SIGNAL_EXIT_STATUS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
"""Exit statuses by name of the signal; SIGHUP (the terminal was closed) is missing on Windows."""


class InterruptSignalError(KeyboardInterrupt):
    """Raised when a signal asks the program to exit."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def raise_interrupt_error(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal by raising `InterruptSignalError`."""
    raise InterruptSignalError(SIGNAL_EXIT_STATUS[signal.Signals(number).name])


@contextmanager
def handle_stop_signals(stop: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Within the context, call a function on termination signals that are not ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows signal handlers only in the main thread
        return
    before = {}
    for name in SIGNAL_EXIT_STATUS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 2**18


def fix_mmap_threshold() -> None:
    """Fix the mmap threshold so that the C library returns large freed blocks to the system.

    Otherwise, glibc raises its threshold up to 32 MiB and then keeps blocks up to that size.
    Processing 768 tokens with a model in Python took 1,100 MB in three of four processes, and 110
    MB with a fixed threshold. All stages for 256 tokens with SmolLM2-135M took 318 MB with a
    threshold of 1 MiB, and 184 MB and 10% less time with a threshold of 256 KiB.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries neither have nor need this function
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)


def trim_freed_memory() -> None:
    """Return small freed blocks to the system; otherwise, the C library keeps them.

    After a tokenizer, a model and 3,000 tensors of 100 kB each had been freed, a process still used
    678 MB. After trimming, which took 17 ms, it used 380 MB. Other threads can run Python code in
    the meantime.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def enable_huge_pages() -> None:
    """Make torch allocate large tensors in huge pages if the system supports them.

    Call this function before torch is imported. Without huge pages, memory is mapped in pages of 4
    KiB on the first write: filling a new tensor of 256 MB takes 210 ms; with huge pages, it takes
    85 ms.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
