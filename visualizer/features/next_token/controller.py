"""Controller of undoable head edits (ablation, scaling, patching) in the open model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.features.next_token.presenter import NEXT_TOKEN_PANEL
from visualizer.models.model_source import HeadEdit, HeadEditKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from visualizer.models.model_source import LayerAndHead
    from visualizer.session.workspace import Workspace

DEFAULT_HEAD_FACTOR = 0.5
"""Initial factor of a scaled head."""


class HeadEditController(QObject):
    """Controller that edits the heads of the workspace's model."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    @property
    def _current_edits(self) -> dict[LayerAndHead, HeadEdit]:
        model = self._workspace.document.model
        return model.edits_by_head if model else {}

    def toggle_shown_head_ablation(self) -> None:
        """Ablate the head if only one is shown, or remove its edit."""
        head = self._workspace.screen.panel(NEXT_TOKEN_PANEL).head
        if head is not None:
            self.toggle_ablation(*head)

    def toggle_ablation(self, layer: int, head: int) -> None:
        """Ablate a head, or remove its edit; layers and heads are numbered as in the model."""
        head_edits, place = self._current_edits, (layer, head)
        if not head_edits.pop(place, None):
            head_edits[place] = HeadEdit(layer, head)
        self._set_edits(head_edits)

    def ablate_heads(self, heads: Iterable[LayerAndHead]) -> None:
        """Ablate several heads; heads that are already edited keep their edit."""
        self._set_edits({**{place: HeadEdit(*place) for place in heads}, **self._current_edits})

    def set_edit_kind(self, kind: str) -> None:
        """Set the kind of edit of the shown heads; an empty `kind` removes the edit."""
        heads = self._workspace.screen.panel(NEXT_TOKEN_PANEL).heads
        head_edits = self._current_edits
        for place in heads:
            edit = head_edits.pop(place, None)
            if edit and edit.kind == kind:
                head_edits[place] = edit
            elif kind:
                factor = DEFAULT_HEAD_FACTOR if kind == HeadEditKind.SCALED else 0.0
                text = self._workspace.document.text if kind == HeadEditKind.PATCHED else ""
                head_edits[place] = HeadEdit(*place, HeadEditKind(kind), factor, text)
        self._set_edits(head_edits)

    def set_scale_factor(self, factor: float) -> None:
        """Set the factor of the shown heads that are scaled."""
        self._edit_shown_heads(HeadEditKind.SCALED, lambda edit: replace(edit, factor=factor))

    def set_source_text(self, text: str) -> None:
        """Set the source text of the shown heads that are patched; typing is one undo step."""
        self._edit_shown_heads(HeadEditKind.PATCHED, lambda edit: replace(edit, text=text))

    def remove_all_edits(self) -> None:
        """Remove all head edits and restore all cut edges."""
        model = self._workspace.document.model
        if model:
            self._workspace.change_setting("model", replace(model, edits=(), cuts=()))

    def _edit_shown_heads(self, kind: HeadEditKind, change: Callable[[HeadEdit], HeadEdit]) -> None:
        head_edits = self._current_edits
        for place in self._workspace.screen.panel(NEXT_TOKEN_PANEL).heads:
            if place in head_edits and head_edits[place].kind is kind:
                head_edits[place] = change(head_edits[place])
        self._set_edits(head_edits, is_continued_edit=True)

    def _set_edits(
        self, edited: dict[LayerAndHead, HeadEdit], *, is_continued_edit: bool = False
    ) -> None:
        model = self._workspace.document.model
        if model:
            edits = tuple(edited[place] for place in sorted(edited))
            self._workspace.change_setting(
                "model", replace(model, edits=edits), is_continued_edit=is_continued_edit
            )
