"""Context variables that are set for the duration of a context."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar

Value = TypeVar("Value")


@contextmanager
def held_within(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Set a context variable within the context, and restore its previous value afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
