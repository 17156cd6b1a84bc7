"""Inputs of a model that are not text: token ids, or the vectors of tokens. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.brief_repr import brief_repr

if TYPE_CHECKING:
    import numpy as np


class TokenIds(Struct, frozen=True):
    """The token ids of one text, without padding.

    Parameters
    ----------
    token_types : tuple of int
        Number of the text of a pair to which each token belongs; empty if the model decides.
    decoder_ids : tuple of int
        Ids of the decoder's text; empty for the start token of an encoder-decoder model.
    """

    ids: tuple[int, ...]
    token_types: tuple[int, ...] = ()
    decoder_ids: tuple[int, ...] = ()

    __repr__ = brief_repr


class TokenVectors(Struct, frozen=True, eq=False):
    """Vectors that replace the token embeddings of one text, [token, d_model]."""

    vectors: np.ndarray

    __repr__ = brief_repr


ModelInput = str | TokenIds | TokenVectors
