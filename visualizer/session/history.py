"""Immutable undo and redo history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Value = TypeVar("Value")
MAX_ENTRIES = 1000


class History(Struct, Generic[Value], frozen=True):
    """Values before and after the current one, nearest last.

    Parameters
    ----------
    key : str
        Identifies the last change; a change with the same key is merged into it.
    """

    past: tuple[Value, ...] = ()
    future: tuple[Value, ...] = ()
    key: str = ""

    def keep(self, old: Value, key: str = "") -> History[Value]:
        """Record a replaced value unless the change has the same key as the last one."""
        if key and key == self.key:
            return History(self.past, (), key)
        return History((*self.past, old)[-MAX_ENTRIES:], (), key)

    def trim_to(self, most: int, held: Callable[[Value], Iterable[bytes | str]]) -> History[Value]:
        """Drop the oldest values while all values use more than `most` bytes in total.

        To be called after each recorded value.

        Parameters
        ----------
        held : callable
            Returns the buffers and texts of a value; shared ones count once.
        """
        if not self.past or not held(self.past[-1]):
            return self  # the newest, the only one that may be new here, adds no memory
        known: set[int] = set()
        total = 0
        for place, value in enumerate(reversed(self.past)):
            for part in held(value):
                total += 0 if id(part) in known else sys.getsizeof(part)
                known.add(id(part))
            if total > most and place:
                return History(self.past[len(self.past) - place :], self.future, self.key)
        return self

    def seal(self) -> History[Value]:
        """End a merged edit; the next change is recorded separately."""
        return History(self.past, self.future)

    def undo(self, present: Value) -> tuple[Value, History[Value]]:
        """Return the previous value, if there is one, and the new history."""
        if not self.past:
            return present, self
        return self.past[-1], History(self.past[:-1], (*self.future, present))

    def redo(self, present: Value) -> tuple[Value, History[Value]]:
        """Return the next value, if there is one, and the new history."""
        if not self.future:
            return present, self
        return self.future[-1], History((*self.past, present), self.future[:-1])
