"""Has a layer of the model opened in the visualizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.state.lab.opening import document_of

if TYPE_CHECKING:
    from visualizer.language.wire import Message
    from visualizer.ui.lab.lab import Lab


class Opener(QObject):
    """Asks for all that a layer computes with, and makes a document of it."""

    opened = Signal(object)
    """A `Document`."""
    refused = Signal(str)

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self._lab = lab
        self._count = 0
        lab.answered.connect(self._take)

    def want(self, layer: int) -> None:
        """Have a layer opened, as it is at the moment that is looked at."""
        view = self._lab.view
        self._count += 1
        asked = {"id": f"layer {self._count}", "text": view.probe, "step": view.step}
        self._lab.ask("layer", **asked, layer=layer)

    def _take(self, message: Message) -> None:
        if message.values.get("id") != f"layer {self._count}":
            return
        if message.says == "refused":
            self.refused.emit(str(message.values["sentence"]))
        else:
            self.opened.emit(document_of(message, self._lab.settings.source.tokenizer))
