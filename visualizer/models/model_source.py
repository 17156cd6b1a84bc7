"""Which model reads the text of a document, and which of its heads are switched off. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

LayerAndHead = tuple[int, int]
"""The number of a layer in its model, and that of a head in it, from 0."""


MOST_NAMED = 6
"""At most so many heads are named; of more, how many."""


def heads_in_words(heads: Sequence[LayerAndHead]) -> str:
    """Name heads, counted from 1: ``layer 18, head 6; layer 19, head 7``."""
    named = [f"layer {layer + 1}, head {head + 1}" for layer, head in heads[:MOST_NAMED]]
    rest = len(heads) - len(named)
    return "; ".join(named) + (f" and {rest:,} more" if rest else "")


class ModelSource(Struct, frozen=True):
    """A model by its folder, and what is changed in it.

    Parameters
    ----------
    folder : str
        The absolute path of its folder on this machine.
    name : str
        What it is called.
    fingerprint : str
        That of its files when the document began to use them; see `ModelFolder`.
    heads_off : tuple of LayerAndHead
        Heads whose context vectors are replaced by zeros, ascending.
    layers : tuple of int
        The numbers in the model of the layers that a saved document has numbers of; empty where it
        has none.
    second : str
        The second text of a pair; of a model with a decoder, what that reads. Empty for none.
    is_chat : bool
        Whether the text is given as a user's message, by the chat template of the tokenizer.
    """

    folder: str
    name: str
    fingerprint: str
    heads_off: tuple[LayerAndHead, ...] = ()
    layers: tuple[int, ...] = ()
    second: str = ""
    is_chat: bool = False

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.folder)
