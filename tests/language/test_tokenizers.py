"""Texts in every script are split into the expected tokens, which a vocabulary maps to ids."""

from __future__ import annotations

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from visualizer.errors import InputError
from visualizer.language.tokenizers import (
    TokenizerKind,
    Vocabulary,
    tokenize,
    visible_token,
    visible_tokens,
)

TEXTS = st.text(st.characters(exclude_categories=()))

WORDS = {
    "Your journey starts with one step": ("Your", "journey", "starts", "with", "one", "step"),
    "Don't stop, it’s km_h!": ("Don't", "stop", ",", "it’s", "km_h", "!"),
    "a'b’c": ("a'b’c",),
    "'tis rock 'n' roll": ("'", "tis", "rock", "'", "n", "'", "roll"),
    "3.5 x²": ("3", ".", "5", "x²"),
    "我爱你，世界": ("我", "爱", "你", "，", "世", "界"),
    "ひら カナ": ("ひ", "ら", "カ", "ナ"),
    "한국어 단어": ("한국어", "단어"),
    "السَّلامُ عليكم، يا": ("السَّلامُ", "عليكم", "،", "يا"),
    "می\u200cخواهم": ("می\u200cخواهم",),
    "שָׁלוֹם עולם": ("שָׁלוֹם", "עולם"),
    "नमस्ते दुनिया।": ("नमस्ते", "दुनिया", "।"),
    "ශ්\u200dරී ලංකා": ("ශ්\u200dරී", "ලංකා"),
    "สวัสดี": ("ส", "วั", "ส", "ดี"),
    "👩\u200d👩\u200d👧 👍🏽🇫🇷🇩🇪": ("👩\u200d👩\u200d👧", "👍🏽", "🇫🇷", "🇩🇪"),
    "cafe\u0301 café": ("cafe\u0301", "café"),
    "a\x00b\x07\x1b": ("a", "\x00", "b", "\x07", "\x1b"),
    "a\tb\r\nc\u3000d\u00a0e": ("a", "b", "c", "d", "e"),
    " \t\n\u2028": (),
    "": (),
}

CHARACTERS = {
    "one step": ("o", "n", "e", " ", "s", "t", "e", "p"),
    "e\u0301é": ("e\u0301", "é"),
    "नमस्ते": ("न", "म", "स्ते"),
    "วัดี": ("วั", "ดี"),
    "👩\u200d👩\u200d👧👍🏽🇫🇷": ("👩\u200d👩\u200d👧", "👍🏽", "🇫🇷"),
    "a\tb\r\n\x00": ("a", "\t", "b", "\r\n", "\x00"),
    "": (),
}

SEEN = {
    "word": "word",
    " ": "␣",
    "\n": "⏎",
    "\r\n": "⏎",
    "\t": "⇥",
    "\u00a0": "⍽",
    "\x00": "␀",
    "\x1b": "␛",
    "\x7f": "␡",
    "\x85": "U+0085",
    "\u200b": "U+200B",
    "\ufeff": "U+FEFF",
    "\u3000": "U+3000",
    "\ud800": "U+D800",
    " \u200d": "␣ U+200D",
    "👩\u200d👧": "👩\u200d👧",
    "می\u200cخواهم": "می\u200cخواهم",
}


@pytest.mark.parametrize("text", WORDS)
def test_words(text: str) -> None:
    assert tokenize(text, TokenizerKind.WORDS) == WORDS[text]


@pytest.mark.parametrize("text", CHARACTERS)
def test_characters(text: str) -> None:
    assert tokenize(text, TokenizerKind.CHARACTERS) == CHARACTERS[text]


@given(TEXTS)
def test_joined_characters_are_the_text(text: str) -> None:
    assert "".join(tokenize(text, TokenizerKind.CHARACTERS)) == text


@given(TEXTS)
def test_words_contain_everything_except_whitespace(text: str) -> None:
    words = tokenize(text, TokenizerKind.WORDS)
    assert not [word for word in words if not word or regex.search(r"^\s|\s$", word)]
    assert regex.sub(r"\s", "", "".join(words)) == regex.sub(r"\s", "", text)


@given(TEXTS, st.sampled_from(TokenizerKind))
def test_a_token_is_tokenized_as_itself(text: str, tokenizer: TokenizerKind) -> None:
    for token in tokenize(text, tokenizer):
        assert tokenize(token, tokenizer) == (token,)


@pytest.mark.parametrize("token", SEEN)
def test_invisible_characters_have_symbols(token: str) -> None:
    assert visible_token(token) == SEEN[token]


@given(st.text(st.characters(exclude_categories=("Cn", "Co"))))
def test_every_token_has_a_visible_form(text: str) -> None:
    shown = visible_tokens(tokenize(text, TokenizerKind.CHARACTERS))
    assert all(any(letter.isprintable() and letter != " " for letter in token) for token in shown)


@given(st.text(min_size=1, max_size=60), st.sampled_from(TokenizerKind))
def test_encoding_and_decoding_are_inverse(text: str, tokenizer: TokenizerKind) -> None:
    vocabulary = Vocabulary.from_tokens(tokenize(text, tokenizer), tokenizer)
    tokens, numbers = vocabulary.tokenize_and_encode(text)
    assert vocabulary.ids_to_tokens(numbers) == tokens == tokenize(text, tokenizer)
    assert numbers.dtype == np.int64


@given(st.text(min_size=1, max_size=60))
def test_characters_are_joined_unchanged(text: str) -> None:
    vocabulary = Vocabulary.from_tokens(
        tokenize(text, TokenizerKind.CHARACTERS), TokenizerKind.CHARACTERS
    )
    assert vocabulary.join_tokens(vocabulary.tokenize_and_encode(text)[0]) == text


def test_ids_follow_the_alphabet() -> None:
    assert Vocabulary.from_tokens("banana", TokenizerKind.CHARACTERS).tokens == ("a", "b", "n")


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
        Vocabulary.from_tokens("abc", TokenizerKind.CHARACTERS).tokenize_and_encode(text)
    assert refused.value.sentence == sentence
