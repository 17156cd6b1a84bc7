"""Numbers on another machine: waiting for them, and callbacks when they arrive; no torch.

The GUI thread never waits. Results that need missing numbers are recomputed when the numbers have
arrived.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakMethod

from visualizer.progress import set_context_variable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_may_wait: ContextVar[bool] = ContextVar("may wait for numbers", default=True)
listeners: list[WeakMethod[Callable[[], object]]] = []
"""Methods that are called when numbers arrive."""


class NumbersPendingError(Exception):
    """Raised if numbers have not arrived yet and the thread must not wait for them."""


def forbid_waiting_for_numbers() -> AbstractContextManager[None]:
    """Within the context, raise `NumbersPendingError` for missing numbers instead of waiting."""
    return set_context_variable(_may_wait, False)


def may_wait() -> bool:
    """Return whether this thread may wait for missing numbers."""
    return _may_wait.get()


def register_arrival_listener(method: Callable[[], object]) -> None:
    """Register a method to be called, on any thread, whenever missing numbers arrive.

    The method is called as long as its object exists.
    """
    listeners.append(WeakMethod(method, listeners.remove))


def notify_arrival_listeners() -> None:
    """Call the registered methods after numbers have arrived; can be called on any thread."""
    for one in [*listeners]:
        if (method := one()) is not None:
            method()
