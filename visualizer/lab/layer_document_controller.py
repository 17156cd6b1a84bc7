"""Opens a layer of the trained model as a document in the visualizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.lab.layer_document import saved_of
from visualizer.widgets.app_settings import NOTICE_MS

if TYPE_CHECKING:
    from visualizer.lab.lab_state_and_training_controller import LabStateController
    from visualizer.language.wire_format import Message


class LayerDocumentController(QObject):
    """Requests a layer's input and weights, and creates a document from them."""

    opened = Signal(object)
    """Carries a `SavedDocument`: a document and its view."""
    refused = Signal(str, int)
    """Carries an error message and the time in milliseconds for which it is shown."""

    def __init__(self, lab: LabStateController) -> None:
        super().__init__(lab)
        self._lab = lab
        self._request_count = 0
        self._head_and_cell: tuple[int, tuple[int, int] | None] = (0, None)
        lab.answered.connect(self._on_answer)

    def want(self, layer: int, head: int, cell: tuple[int, int] | None) -> None:
        """Open a layer as it is at the selected step.

        Parameters
        ----------
        cell : tuple of (query, key) or None
            The cell to pin.
        """
        view = self._lab.view
        self._request_count, self._head_and_cell = self._request_count + 1, (head, cell)
        request = {"id": f"layer {self._request_count}", "text": view.probe, "step": view.step}
        self._lab.ask("layer", **request, layer=layer)

    def _on_answer(self, message: Message) -> None:
        if message.values.get("id") != f"layer {self._request_count}":
            return
        if message.says == "refused":
            self.refused.emit(str(message.values["sentence"]), NOTICE_MS)
        else:
            run, tokenizer = self._lab.run, self._lab.settings.source.effective_tokenizer
            name = run.name if run else ""
            self.opened.emit(saved_of(message, tokenizer, *self._head_and_cell, name))
