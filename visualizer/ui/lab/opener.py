"""Has a layer of the model opened in the visualizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.state.lab.opening import saved_of

if TYPE_CHECKING:
    from visualizer.language.wire import Message
    from visualizer.ui.lab.lab import Lab


class Opener(QObject):
    """Asks for all that a layer computes with, and makes a document of it."""

    opened = Signal(object)
    """A `Saved`: a document, and the cell of it that is looked at."""
    refused = Signal(str)

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self._lab = lab
        self._count = 0
        self._cell = (0, 0, 0)
        lab.answered.connect(self._take)

    def want(self, layer: int, cell: tuple[int, int, int]) -> None:
        """Have a layer opened, as it is at the moment that is looked at.

        Parameters
        ----------
        cell : tuple of (head, query, key)
            What is to be looked at in it.
        """
        view = self._lab.view
        self._count, self._cell = self._count + 1, cell
        asked = {"id": f"layer {self._count}", "text": view.probe, "step": view.step}
        self._lab.ask("layer", **asked, layer=layer)

    def _take(self, message: Message) -> None:
        if message.values.get("id") != f"layer {self._count}":
            return
        if message.says == "refused":
            self.refused.emit(str(message.values["sentence"]))
        else:
            tokenizer = self._lab.settings.source.tokenizer
            self.opened.emit(saved_of(message, tokenizer, self._cell))
