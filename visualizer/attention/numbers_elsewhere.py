"""Numbers that are on another machine: who may wait for them, and who is told when they are here.

No torch here. The thread of a window never waits: what it makes of numbers that are not here yet is
made again once they are.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakMethod

from visualizer.context_value import held_within

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_may_wait: ContextVar[bool] = ContextVar("may wait for numbers", default=True)
_told: list[WeakMethod[Callable[[], object]]] = []


class NumbersOnTheirWayError(Exception):
    """Numbers are asked for and not here yet, where they are not waited for."""


def without_waiting() -> AbstractContextManager[None]:
    """Have numbers that are not here raise `NumbersOnTheirWayError` within the context."""
    return held_within(_may_wait, False)


def may_wait() -> bool:
    """Whether the work on this thread waits for numbers."""
    return _may_wait.get()


def tell_arrivals(method: Callable[[], object]) -> None:
    """Have a method called, on any thread, when numbers have arrived that were not waited for.

    It is called as long as its object is there.
    """
    _told.append(WeakMethod(method, _told.remove))


def numbers_arrived() -> None:
    """Tell that numbers are here; called on any thread."""
    for one in [*_told]:
        if (method := one()) is not None:
            method()
