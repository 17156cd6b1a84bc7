"""A vocabulary maps tokens to ids and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.errors import InputError
from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize


@given(st.text(min_size=1, max_size=60), st.sampled_from(TokenizerKind))
def test_encoding_and_decoding_are_inverse(text: str, tokenizer: TokenizerKind) -> None:
    vocabulary = Vocabulary.of(tokenize(text, tokenizer), tokenizer)
    tokens, numbers = vocabulary.tokenize(text)
    assert vocabulary.ids_to_tokens(numbers) == tokens == tokenize(text, tokenizer)
    assert numbers.dtype == np.int64


@given(st.text(min_size=1, max_size=60))
def test_characters_are_joined_unchanged(text: str) -> None:
    vocabulary = Vocabulary.of(tokenize(text, TokenizerKind.CHARACTERS), TokenizerKind.CHARACTERS)
    assert vocabulary.join_tokens(vocabulary.tokenize(text)[0]) == text


def test_ids_follow_the_alphabet() -> None:
    assert Vocabulary.of("banana", TokenizerKind.CHARACTERS).tokens == ("a", "b", "n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ax", "“x” is not in the model’s vocabulary."),
        ("x\ny", "“x”, “⏎”, “y” are not in the model’s vocabulary."),
        ("hijklmnop", "“h”, “i”, “j”, “k”, “l” and 4 more are not in the model’s vocabulary."),
    ],
)
def test_unknown_tokens_are_named(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        Vocabulary.of("abc", TokenizerKind.CHARACTERS).tokenize(text)
    assert refused.value.sentence == sentence
