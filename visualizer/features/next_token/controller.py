"""Edits heads of the model that reads the text, as changes that can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.features.next_token.presenter import NEXT_TOKEN
from visualizer.models.model_source import HeadEdit, HeadEditKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from visualizer.models.model_source import LayerAndHead
    from visualizer.session.workspace import Workspace

FIRST_FACTOR = 0.5
"""By what a head is scaled until another factor is typed."""


class HeadEditController(QObject):
    """Changes what becomes of heads."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    @property
    def _edited(self) -> dict[LayerAndHead, HeadEdit]:
        model = self._workspace.document.model
        return model.edited if model else {}

    def toggle(self) -> None:
        """Switch the head that is shown alone off, or take back what became of it."""
        head = self._workspace.screen.panel(NEXT_TOKEN).head
        if head is not None:
            self.switch(*head)

    def switch(self, layer: int, head: int) -> None:
        """Switch a head off, or take back what became of it, by their numbers in the model."""
        kept, place = self._edited, (layer, head)
        if not kept.pop(place, None):
            kept[place] = HeadEdit(layer, head)
        self._set(kept)

    def switch_off(self, heads: Iterable[LayerAndHead]) -> None:
        """Switch several heads off together; those that are edited stay so."""
        self._set({**{place: HeadEdit(*place) for place in heads}, **self._edited})

    def set_kind(self, kind: str) -> None:
        """Choose what becomes of the shown heads; nothing takes it back."""
        heads = self._workspace.screen.panel(NEXT_TOKEN).heads
        kept = {place: edit for place, edit in self._edited.items() if place not in heads}
        if kind:
            factor, text = 0.0, ""
            if kind == HeadEditKind.SCALED:
                factor = FIRST_FACTOR
            if kind == HeadEditKind.PATCHED:
                text = self._workspace.document.text
            made = {place: HeadEdit(*place, HeadEditKind(kind), factor, text) for place in heads}
            same = {place: edit for place, edit in self._edited.items() if edit.kind == kind}
            kept = {**kept, **made, **same}
        self._set(kept)

    def set_factor(self, factor: float) -> None:
        """Scale the shown heads by another factor."""
        self._edit_shown(HeadEditKind.SCALED, lambda edit: replace(edit, factor=factor))

    def set_source(self, text: str) -> None:
        """Patch the shown heads from another text; what is typed is undone as one change."""
        self._edit_shown(HeadEditKind.PATCHED, lambda edit: replace(edit, text=text))

    def settle(self) -> None:
        """End the undo step of what was typed."""
        self._workspace.seal()

    def all_on(self) -> None:
        """Take back all edits of heads, and all cut edges."""
        model = self._workspace.document.model
        if model:
            self._workspace.seal()
            self._workspace.set("model", replace(model, edits=(), cuts=()))

    def _edit_shown(self, kind: HeadEditKind, change: Callable[[HeadEdit], HeadEdit]) -> None:
        heads, kept = self._workspace.screen.panel(NEXT_TOKEN).heads, self._edited
        for place in heads:
            if place in kept and kept[place].kind is kind:
                kept[place] = change(kept[place])
        self._set(kept, going_on=True)

    def _set(self, edited: dict[LayerAndHead, HeadEdit], *, going_on: bool = False) -> None:
        model = self._workspace.document.model
        if model:
            if not going_on:
                self._workspace.seal()
            edits = tuple(edited[place] for place in sorted(edited))
            self._workspace.set("model", replace(model, edits=edits), going_on=going_on)
