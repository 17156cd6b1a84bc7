"""Selects the reader of generated tokens: local, or on the server that has the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.models.generation_with_cache import TokenReader
from visualizer.models.model_client.remote_model import RemoteModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.models.model_client.remote_model import RemoteTokenReader
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel


def token_reader_of(
    model: OpenedModel | RemoteModel,
    text: str,
    factors: Mapping[LayerAndHead, float],
    *,
    is_chat: bool,
) -> TokenReader | RemoteTokenReader:
    """Return the reader with which a model generates text after a prompt.

    Parameters
    ----------
    factors : mapping
        Factors of the context vectors of edited heads, by layer in the model and head.
    is_chat : bool
        Whether the text is a user message.

    Raises
    ------
    InputError
        As in `TokenReader` and `RemoteModel.reader`.
    """
    if isinstance(model, RemoteModel):
        return model.reader(text, factors, is_chat=is_chat)
    return TokenReader(model, text, factors, is_chat=is_chat)
