"""Which token a model expects next, with all heads and without those that are switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.models.model_source import heads_in_words
from visualizer.number_format import format_share
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.model_reading import NextToken
    from visualizer.models.model_source import LayerAndHead
    from visualizer.session.resolved_view import Resolved

NO_MODEL = "Open a model (File > Open a model…) to see which token it expects next."
NOT_READ = "The numbers are those that were saved. Change the text, and the model reads it again."
HOW = (
    "Switching a head off replaces its context vectors by zeros, in the model itself: all layers "
    "after it read what is left."
)
NOT_SWITCHABLE = "Heads of this model cannot be switched off one by one."
SHOW_ONE = "Show one head alone to switch it off: click it in the Layers pane."


class NextTokenPanel(Struct, frozen=True):
    """The Next token pane.

    Parameters
    ----------
    rows : tuple of NextToken
        The most probable tokens, the most probable with the heads as they are now first.
    message : str
        Why there are none; empty where there are.
    heads_off : tuple of LayerAndHead
        The heads that are switched off, by the layer's number in the model.
    head : LayerAndHead or None
        The head that can be switched: the one that is shown alone, or that of the pinned cell.
    hint : str
        What switching does, or why it cannot be done.
    """

    rows: tuple[NextToken, ...] = ()
    message: str = NO_MODEL
    heads_off: tuple[LayerAndHead, ...] = ()
    head: LayerAndHead | None = None
    hint: str = ""

    @property
    def is_head_off(self) -> bool:
        """Whether the head that can be switched is off."""
        return self.head in self.heads_off

    @property
    def switch(self) -> str:
        """What switching the head is called; empty where none can be."""
        if self.head is None:
            return ""
        return f"Switch {heads_in_words((self.head,))} {'on' if self.is_head_off else 'off'}"

    @property
    def in_words(self) -> str:
        """The rows as sentences, for screen readers."""
        if not self.rows:
            return self.message
        said = []
        for row in self.rows:
            before = f", with all heads {format_share(row.probability_of_all_heads)}"
            all_heads = before if self.heads_off else ""
            said.append(f"“{row.token}” {format_share(row.probability)}{all_heads}")
        return "; ".join(said) + "."


NEXT_TOKEN: PanelId[NextTokenPanel] = PanelId("Next token")


def present_next_token(resolved: Resolved) -> NextTokenPanel:
    """Present what the model that reads the text expects next."""
    reading, model = resolved.run.reading, resolved.document.model
    if model is None:
        return NextTokenPanel()
    if reading is None:
        return NextTokenPanel(message=NOT_READ, heads_off=model.heads_off)
    rows = sorted(reading.next_tokens, key=lambda row: -row.probability)
    off = tuple(sorted(reading.heads_off))
    head = _head(resolved, reading.layers) if reading.are_heads_switchable else None
    hint = HOW if head else SHOW_ONE
    if not reading.are_heads_switchable:
        hint = NOT_SWITCHABLE
    return NextTokenPanel(tuple(rows), reading.no_next_token, off, head, hint)


def _head(resolved: Resolved, layers: tuple[int, ...]) -> LayerAndHead | None:
    layer = layers[resolved.run.trace.at("layer", resolved.leading)]
    if len(resolved.heads) == 1:
        return layer, resolved.heads[0]
    pinned = resolved.pinned
    return (layer, pinned.head) if pinned and pinned.head is not None else None
