"""Switches heads of the model that reads the text off and on, as changes that can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.features.next_token.presenter import NEXT_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.models.model_source import LayerAndHead
    from visualizer.session.workspace import Workspace


class HeadSwitchController(QObject):
    """Changes which heads are off."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def toggle(self) -> None:
        """Switch the head that is shown alone off, or on again."""
        head = self._workspace.screen.panel(NEXT_TOKEN).head
        if head is not None:
            self.switch(*head)

    def switch(self, layer: int, head: int) -> None:
        """Switch a head off, or on again, by their numbers in the model."""
        model = self._workspace.document.model
        if model:
            self._set({*model.heads_off} ^ {(layer, head)})

    def switch_off(self, heads: Iterable[LayerAndHead]) -> None:
        """Switch several heads off together; those that are off stay so."""
        model = self._workspace.document.model
        if model:
            self._set({*model.heads_off} | {*heads})

    def all_on(self) -> None:
        """Switch all heads on."""
        self._set(())

    def _set(self, heads: Iterable[LayerAndHead]) -> None:
        model = self._workspace.document.model
        if model:
            self._workspace.seal()
            off = tuple(sorted(heads))
            self._workspace.set("model", replace(model, heads_off=off))
