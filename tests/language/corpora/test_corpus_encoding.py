"""Long texts are encoded in the same way as short ones, only faster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.language.corpora import corpus_encoding
from visualizer.language.corpora.corpus_encoding import encode_text
from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize

# Characters that join their neighbours in all possible ways, and characters that separate them.
JOINING = (
    *("a", "b", " ", "\n", "\r", "\r\n", "\t", "\x1c", "'", "’", "0", "_", "\u2028", "\0"),
    *(
        "\u0301",
        "\u200d",
        "\u200c",
        "\u0600",
        "\u110bd",
        "\u0903",
        "\ufe0f",
    ),  # combining marks and prefixes
    *("👩", "👧", "🏽", "🇫", "🇷", "❤"),
    *("क", "्", "ष", "ி", "ක", "ශ්‍ර", "ก", "ำ", "か", "゙", "猫"),
    *("\u1100", "\u1161", "\u11a8", "가", "각"),
    *("\ud800", "\U000e0041", "é"),
)


def texts() -> st.SearchStrategy[str]:
    parts = st.sampled_from(JOINING) | st.text(st.characters(exclude_categories=()), max_size=3)
    return st.lists(parts, max_size=40).map("".join)


@given(texts(), st.sampled_from(TokenizerKind), st.integers(1, 12))
def test_every_text_is_encoded_as_by_tokenize(
    text: str, tokenizer: TokenizerKind, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_encoding, "CHARACTERS_PER_PIECE", piece)
        vocabulary, numbers = encode_text(text, tokenizer)
    tokens = tokenize(text, tokenizer)
    assert vocabulary == Vocabulary.from_tokens(tokens, tokenizer)
    assert vocabulary.ids_to_tokens(numbers) == tokens
    assert numbers.dtype == np.int64


LETTERS = (
    *(range(0x3400), range(0xA000, 0xAC10), range(0xD7A0, 0xE010), range(0xF900, 0x12000)),
    *(range(0x1D000, 0x1D300), range(0x1F000, 0x20000), range(0xE0000, 0xE1000)),
)


@pytest.mark.parametrize("letters", LETTERS)
def test_every_character_is_encoded_as_by_tokenize(letters: range) -> None:
    text = "".join(f"{chr(letter)}a{chr(letter)}" for letter in letters)
    vocabulary, numbers = encode_text(text, TokenizerKind.CHARACTERS)
    assert vocabulary.ids_to_tokens(numbers) == tokenize(text, TokenizerKind.CHARACTERS)
