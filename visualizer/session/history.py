"""An immutable undo and redo history, and the history of the document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from visualizer.attention.settings import SETTINGS
from visualizer.models.model_source import describe_cuts, describe_edits
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from visualizer.models.model_source import LayerAndHead, ModelSource

    Cells = Mapping[LayerAndHead, tuple[tuple[int, int], ...]]


FIELD_NAMES = {
    **{setting.name: setting.label for setting in SETTINGS},
    "text": "text",
    "labels": "token labels",
    "captured": "opened attention",
    "own_input": "custom vectors",
    "own_weights": "custom weights",
    "own_mask": "mask",
    "own_kept": "custom dropout",
}
"""Names for changes to the fields of a document and its spec; other changes have no name."""
MODEL_FIELD_NAMES = {"second": "second text", "image": "image", "is_chat": "user message"}
"""Names for changes to the fields of a model source."""
DERIVED_FIELDS = frozenset({"lengths", "weights_source"})
"""Fields derived from others: ``lengths`` from the text, ``weights_source`` from the weights."""
UNCHANGED_LABEL = "as it is"
MAX_LENGTH = 60
"""Maximum length of a description, in characters."""


class ChangeDescriber:
    """Describes changes, and caches the description of the last one."""

    def __init__(self) -> None:
        self._before: Document | None = None
        self._after: Document | None = None
        self._name = ""

    def describe(self, before: Document, after: Document) -> str:
        """Return the result of `describe_change`; the result of the last call is cached."""
        if before is not self._before or after is not self._after:
            self._before, self._after = before, after
            self._name = describe_change(before, after)
        return self._name


def describe_change(before: Document, after: Document) -> str:
    """Return a short description of a change; empty if there is none, as for several settings."""
    names = _changed_fields(before, after) - {"spec"}
    names = (names | _changed_fields(before.spec, after.spec)) - DERIVED_FIELDS
    if "model" in names:
        description = _describe_model_change(before.model, after.model)
    elif names == {"mask", "own_mask"}:
        description = FIELD_NAMES["own_mask"]
    else:
        description = FIELD_NAMES.get(next(iter(names)), "") if len(names) == 1 else ""
    return description if len(description) <= MAX_LENGTH else f"{description[: MAX_LENGTH - 1]}…"


def _changed_fields(before: Struct, after: Struct) -> set[str]:
    names = before.__struct_fields__
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def _describe_model_change(before: ModelSource | None, after: ModelSource | None) -> str:
    if before is None or after is None or before.folder != after.folder:
        return f"open {after.name}" if after else "return to a module"
    names = _changed_fields(before, after) - {"layers"}
    if names == {"edits"}:
        return _describe_edited_heads(
            before.edit_descriptions_by_head, after.edit_descriptions_by_head
        )
    if names == {"cuts"}:
        return _describe_cut_edges(before.cut_cells_by_head, after.cut_cells_by_head)
    return MODEL_FIELD_NAMES.get(next(iter(names)), "") if len(names) == 1 else ""


def _describe_edited_heads(
    before: Mapping[LayerAndHead, str], after: Mapping[LayerAndHead, str]
) -> str:
    new = {
        head: description for head, description in after.items() if before.get(head) != description
    }
    return describe_edits(new or {head: UNCHANGED_LABEL for head in before if head not in after})


def _describe_cut_edges(before: Cells, after: Cells) -> str:
    new, old = _cells_missing_from(after, before), _cells_missing_from(before, after)
    return f"cut {describe_cuts(new)}" if new else f"restore {describe_cuts(old)}"


def _cells_missing_from(cells: Cells, others: Cells) -> Cells:
    """Return the cells, by head, that are not among the others."""
    found = {
        head: tuple(sorted({*edges} - {*others.get(head, ())})) for head, edges in cells.items()
    }
    return {head: edges for head, edges in found.items() if edges}


Value = TypeVar("Value")
MAX_ENTRIES = 1000
MAX_UNDO_BYTES = 2**28
"""Maximum memory, in bytes, of the custom matrices and long texts that are kept for undo."""


class History(Struct, Generic[Value], frozen=True):
    """Values before and after the current one; in both, the nearest value is last.

    Parameters
    ----------
    key : str
        Key of the last change; a change with the same key is merged into that change.
    """

    past: tuple[Value, ...] = ()
    future: tuple[Value, ...] = ()
    key: str = ""

    def record(self, old: Value, key: str = "") -> History[Value]:
        """Record the replaced value, unless the change has the same key as the last one."""
        if key and key == self.key:
            return History(self.past, (), key)
        return History((*self.past, old)[-MAX_ENTRIES:], (), key)

    def trim_to_bytes(
        self, most: int, list_buffers: Callable[[Value], Iterable[bytes | str]]
    ) -> History[Value]:
        """Drop the oldest values so that the others use at most `most` bytes; the newest is kept.

        This must be called after each recorded value.

        Parameters
        ----------
        list_buffers : callable
            Returns the buffers and texts of a value; objects that values share are counted once.
        """
        if not self.past or not list_buffers(self.past[-1]):
            return self  # only the newest value can be new here, and it uses no memory
        known: set[int] = set()
        total = 0
        for place, value in enumerate(reversed(self.past)):
            for part in list_buffers(value):
                total += 0 if id(part) in known else sys.getsizeof(part)
                known.add(id(part))
            if total > most and place:
                return History(self.past[len(self.past) - place :], self.future, self.key)
        return self

    def end_merged_edit(self) -> History[Value]:
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
    """The undo history of the document; each change replaces the document."""

    def __init__(self) -> None:
        self.changes: History[Document] = History()
        self._undo_description, self._redo_description = ChangeDescriber(), ChangeDescriber()

    def record(self, document: Document, key: str = "") -> None:
        """Record the document before a change; a change with the key of the last one is merged."""
        kept = self.changes.record(document, key)
        self.changes = kept.trim_to_bytes(MAX_UNDO_BYTES, Document.large_objects)

    def replace_history(self, changes: History[Document]) -> History[Document]:
        """Continue with another history, and return the previous one."""
        before, self.changes = self.changes, changes
        return before

    def end_merged_edit(self) -> None:
        """End a merged edit; the next change is recorded separately."""
        self.changes = self.changes.end_merged_edit()

    def undo(self, document: Document) -> Document:
        """Return the document before its last change."""
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
        """Describe the change that undo reverts; an unnamed change gives an empty string."""
        past = self.changes.past
        return self._undo_description.describe(past[-1], document) if past else ""

    def redo_description(self, document: Document) -> str:
        """Describe the change that redo restores; an unnamed change gives an empty string."""
        future = self.changes.future
        return self._redo_description.describe(document, future[-1]) if future else ""
