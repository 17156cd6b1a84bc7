"""Short descriptions of document changes, for the Undo and Redo commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.settings import SETTINGS
from visualizer.models.model_source import describe_cuts, edits_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Struct

    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.session.document import Document

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
"""Names of fields of a document and its spec; changes of other fields have no name."""
MODEL_FIELD_NAMES = {"second": "second text", "image": "image", "is_chat": "user message"}
"""Names of fields of a model source."""
DERIVED_FIELDS = frozenset({"lengths", "weights_source"})
"""Fields derived from others: from the text in a spec, from the weights in a document."""
UNCHANGED_LABEL = "as it is"
MAX_LENGTH = 60
"""Maximum length of a description, in characters."""


class ChangeDescription:
    """Describes a change, caching the description of the last pair of documents."""

    def __init__(self) -> None:
        self._before: Document | None = None
        self._after: Document | None = None
        self._name = ""

    def between(self, before: Document, after: Document) -> str:
        """Return `describe_change` of two documents."""
        if before is not self._before or after is not self._after:
            self._before, self._after = before, after
            self._name = describe_change(before, after)
        return self._name


def describe_change(before: Document, after: Document) -> str:
    """Describe a change; empty if it has no short name, as for several settings."""
    names = _changed_fields(before, after) - {"spec"}
    names = (names | _changed_fields(before.spec, after.spec)) - DERIVED_FIELDS
    if "model" in names:
        said = _model_in_words(before.model, after.model)
    elif names == {"mask", "own_mask"}:
        said = FIELD_NAMES["own_mask"]
    else:
        said = FIELD_NAMES.get(next(iter(names)), "") if len(names) == 1 else ""
    return said if len(said) <= MAX_LENGTH else f"{said[: MAX_LENGTH - 1]}…"


def _changed_fields(before: Struct, after: Struct) -> set[str]:
    names = before.__struct_fields__
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def _model_in_words(before: ModelSource | None, after: ModelSource | None) -> str:
    if before is None or after is None or before.folder != after.folder:
        return f"open {after.name}" if after else "return to a module"
    names = _changed_fields(before, after) - {"layers"}
    if names == {"edits"}:
        return _edited_heads(before.short_description, after.short_description)
    if names == {"cuts"}:
        return _cut_edges(before.cut_cells, after.cut_cells)
    return MODEL_FIELD_NAMES.get(next(iter(names)), "") if len(names) == 1 else ""


def _edited_heads(before: Mapping[LayerAndHead, str], after: Mapping[LayerAndHead, str]) -> str:
    new = {head: said for head, said in after.items() if before.get(head) != said}
    return edits_in_words(new or {head: UNCHANGED_LABEL for head in before if head not in after})


def _cut_edges(before: Cells, after: Cells) -> str:
    new, old = _cells_of_other_heads(after, before), _cells_of_other_heads(before, after)
    return f"cut {describe_cuts(new)}" if new else f"restore {describe_cuts(old)}"


def _cells_of_other_heads(cells: Cells, others: Cells) -> Cells:
    """Return the cells of heads that are not among the others."""
    found = {
        head: tuple(sorted({*edges} - {*others.get(head, ())})) for head, edges in cells.items()
    }
    return {head: edges for head, edges in found.items() if edges}
