"""What reads a text and tokens after it: here, or on the server that has the model."""

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
    """Return what continues a text by a model.

    Parameters
    ----------
    factors : mapping
        What the context vectors of edited heads are multiplied with, by the layer's number in the
        model and the head.
    is_chat : bool
        Whether the text is a user's message.

    Raises
    ------
    InputError
        As `TokenReader` and `RemoteModel.reader` do.
    """
    if isinstance(model, RemoteModel):
        return model.reader(text, factors, is_chat=is_chat)
    return TokenReader(model, text, factors, is_chat=is_chat)
