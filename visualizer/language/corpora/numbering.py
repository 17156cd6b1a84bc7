"""A long text as numbers of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language.tokenizers import tokenize
from visualizer.language.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy as np

    from visualizer.language.tokenizers import Tokenizer


def number(text: str, tokenizer: Tokenizer) -> tuple[Vocabulary, np.ndarray]:
    """Number every token of a text by a vocabulary of them all."""
    tokens = tokenize(text, tokenizer)
    vocabulary = Vocabulary.of(tokens, tokenizer)
    return vocabulary, vocabulary.encode(tokens)
