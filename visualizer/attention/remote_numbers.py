"""Numbers on another machine: whether to wait for them, and callbacks on arrival; no torch.

The GUI thread never waits: results that need missing numbers are computed again once the numbers
have arrived.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakMethod

from visualizer.progress import context_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_may_wait: ContextVar[bool] = ContextVar("may wait for numbers", default=True)
listeners: list[WeakMethod[Callable[[], object]]] = []
"""Methods to call when numbers arrive."""


class NumbersPendingError(Exception):
    """Raised if numbers have not arrived yet and the caller does not wait for them."""


def forbid_waiting() -> AbstractContextManager[None]:
    """Raise `NumbersPendingError` for missing numbers within the context."""
    return context_value(_may_wait, False)


def may_wait() -> bool:
    """Return whether this thread waits for numbers."""
    return _may_wait.get()


def notify_arrival(method: Callable[[], object]) -> None:
    """Call a method, on any thread, when numbers arrive that were not waited for.

    The method is called for as long as its object exists.
    """
    listeners.append(WeakMethod(method, listeners.remove))


def report_arrival() -> None:
    """Call the registered methods, as numbers have arrived; can be called on any thread."""
    for one in [*listeners]:
        if (method := one()) is not None:
            method()
