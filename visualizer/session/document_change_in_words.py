"""What has changed between two documents in a few words, for the commands that undo and redo it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.models.model_source import cuts_in_words, edits_in_words
from visualizer.session.setting_definitions import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Struct

    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.session.document import Document

    Cells = Mapping[LayerAndHead, tuple[tuple[int, int], ...]]

IN_WORDS = {
    **{setting.name: setting.label for setting in SETTINGS},
    "text": "text",
    "labels": "labels of tokens",
    "captured": "attention that was opened",
    "own_input": "own vectors",
    "own_weights": "own weights",
    "own_mask": "mask",
    "own_kept": "own dropout",
}
"""The fields of a document and its spec; changes of others have no name of their own."""
MODEL_FIELD_NAMES = {"second": "second text", "image": "image", "is_chat": "user’s message"}
"""The fields of a model's source that are named in the same way."""
FOLLOWING = frozenset({"lengths", "weights_source"})
"""Fields that follow from others: of the spec from the text, of a document from its weights."""
AS_IT_IS = "as it is"
MAX_LENGTH = 60
"""Characters of what is said."""


class NamedChange:
    """Names a change once, for as long as it is asked about the same documents."""

    def __init__(self) -> None:
        self._before: Document | None = None
        self._after: Document | None = None
        self._name = ""

    def between(self, before: Document, after: Document) -> str:
        """Return `change_in_words`."""
        if before is not self._before or after is not self._after:
            self._before, self._after = before, after
            self._name = change_in_words(before, after)
        return self._name


def change_in_words(before: Document, after: Document) -> str:
    """Name what has changed; empty where that has no short name, as of several settings."""
    names = _changed(before, after) - {"spec"}
    names = (names | _changed(before.spec, after.spec)) - FOLLOWING
    if "model" in names:
        said = _model_in_words(before.model, after.model)
    elif names == {"mask", "own_mask"}:
        said = IN_WORDS["own_mask"]
    else:
        said = IN_WORDS.get(next(iter(names)), "") if len(names) == 1 else ""
    return said if len(said) <= MAX_LENGTH else f"{said[: MAX_LENGTH - 1]}…"


def _changed(before: Struct, after: Struct) -> set[str]:
    names = before.__struct_fields__
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def _model_in_words(before: ModelSource | None, after: ModelSource | None) -> str:
    if before is None or after is None or before.folder != after.folder:
        return f"open {after.name}" if after else "back to a module"
    names = _changed(before, after) - {"layers"}
    if names == {"edits"}:
        return _edits(before.becomes, after.becomes)
    if names == {"cuts"}:
        return _cuts(before.cut_cells, after.cut_cells)
    return MODEL_FIELD_NAMES.get(next(iter(names)), "") if len(names) == 1 else ""


def _edits(before: Mapping[LayerAndHead, str], after: Mapping[LayerAndHead, str]) -> str:
    new = {head: said for head, said in after.items() if before.get(head) != said}
    return edits_in_words(new or {head: AS_IT_IS for head in before if head not in after})


def _cuts(before: Cells, after: Cells) -> str:
    new, old = _beyond(after, before), _beyond(before, after)
    return f"cut {cuts_in_words(new)}" if new else f"join {cuts_in_words(old)}"


def _beyond(cells: Cells, others: Cells) -> Cells:
    """Return the cells of heads that are not among others."""
    found = {
        head: tuple(sorted({*edges} - {*others.get(head, ())})) for head, edges in cells.items()
    }
    return {head: edges for head, edges in found.items() if edges}
