"""Immutable undo and redo history, and the history of the document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from visualizer.session.change_description import ChangeDescription
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Value = TypeVar("Value")
MAX_ENTRIES = 1000
MAX_UNDO_BYTES = 2**28
"""Maximum memory of custom matrices and long texts kept for undo."""


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


class DocumentHistory:
    """The undo history of a document that is replaced by each change."""

    def __init__(self) -> None:
        self.changes: History[Document] = History()
        self._undo_description, self._redo_description = ChangeDescription(), ChangeDescription()

    def record(self, document: Document, key: str = "") -> None:
        """Add a document before it changes; a change with the key of the last one is merged."""
        kept = self.changes.keep(document, key)
        self.changes = kept.trim_to(MAX_UNDO_BYTES, Document.large_objects)

    def replace(self, changes: History[Document]) -> History[Document]:
        """Continue with another history; return the previous one."""
        before, self.changes = self.changes, changes
        return before

    def seal(self) -> None:
        """End an edit that merges successive changes."""
        self.changes = self.changes.seal()

    def undo(self, document: Document) -> Document:
        """Return the document before the last change of the current one."""
        document, self.changes = self.changes.undo(document)
        return document

    def redo(self, document: Document) -> Document:
        """Return the document after the change that was undone last."""
        document, self.changes = self.changes.redo(document)
        return document

    @property
    def can_undo(self) -> bool:
        return bool(self.changes.past)

    @property
    def can_redo(self) -> bool:
        return bool(self.changes.future)

    def undo_description(self, document: Document) -> str:
        """Describe the change that undo reverts; empty if it has no short name."""
        past = self.changes.past
        return self._undo_description.between(past[-1], document) if past else ""

    def redo_description(self, document: Document) -> str:
        """Describe the change that redo restores; empty if it has no short name."""
        future = self.changes.future
        return self._redo_description.between(document, future[-1]) if future else ""
