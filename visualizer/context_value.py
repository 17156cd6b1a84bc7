"""Values that hold for the work on one thread within a context."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar

Value = TypeVar("Value")


@contextmanager
def held_within(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Have a variable this value within the context, and the one before after it."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
