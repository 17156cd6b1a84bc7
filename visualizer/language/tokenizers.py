"""Word and character tokenizers for any script, and vocabularies.

Words are sequences of letters, marks and digits. In scripts that are written without spaces, each
character is a token. Characters are extended grapheme clusters (Unicode UAX #29). This module does
not import torch.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING
from unicodedata import category

import numpy as np
from msgspec import Struct

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import regex

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
SPACE_SYMBOL = "␣"
"""The symbol for a space in labels."""
_VISIBLE_FORMS = {
    " ": SPACE_SYMBOL,
    "\n": "⏎",
    "\r\n": "⏎",
    "\r": "⏎",
    "\t": "⇥",
    "\u00a0": "⍽",
    "\x7f": "␡",
}
# Control characters, format characters, lone surrogates and separators.
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}


class TokenizerKind(StrEnum):
    """The unit into which texts are split."""

    WORDS = "words"
    CHARACTERS = "characters"


def tokenize(text: str, tokenizer: TokenizerKind) -> tuple[str, ...]:
    """Split a text into words, without whitespace, or into characters, including whitespace."""
    # Matches are found one at a time. Finding all matches in a novel in a single call would block
    # all other threads.
    return tuple(match.group() for match in _token_pattern(tokenizer).finditer(text))


@cache
def _token_pattern(tokenizer: TokenizerKind) -> regex.Pattern[str]:
    import regex  # imported late, because loading it takes time

    if tokenizer is TokenizerKind.CHARACTERS:
        return regex.compile(r"\X")
    # Joiners belong to words: ශ්‍රී, می‌خواهم.
    word = rf"(?:(?!{_UNSPACED})[\p{{L}}\p{{N}}_][\p{{M}}\u200c\u200d]*)+"
    return regex.compile(rf"{_UNSPACED}|{word}(?:['’]{word})*|(?!\s)\X")


@lru_cache(maxsize=4)
def visible_tokens(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the visible form of each token of a text."""
    # A text has many tokens, but few distinct ones.
    visible = {token: visible_token(token) for token in set(tokens)}
    return tuple(map(visible.__getitem__, tokens))


def visible_token(token: str) -> str:
    """Return a token's label, with symbols for leading spaces and invisible characters."""
    if token in _VISIBLE_FORMS:
        return _VISIBLE_FORMS[token]
    rest = token.lstrip(" ")
    if any(category(letter) not in _INVISIBLE_CATEGORIES for letter in rest):
        before = SPACE_SYMBOL * (len(token) - len(rest))
        return before + rest.replace("\n", _VISIBLE_FORMS["\n"])
    return " ".join(_control_symbol(letter) for letter in token)


def _control_symbol(letter: str) -> str:
    symbol = _VISIBLE_FORMS.get(letter)
    return symbol or (chr(0x2400 + ord(letter)) if letter < " " else f"U+{ord(letter):04X}")


MAX_LISTED_TOKENS = 5


def format_token_list(tokens: Sequence[str]) -> str:
    """List the first tokens in quotes and in visible form, with the number of other tokens."""
    listed = ", ".join(f"“{visible_token(token)}”" for token in tokens[:MAX_LISTED_TOKENS])
    others = len(tokens) - MAX_LISTED_TOKENS
    return f"{listed} and {others:,} more" if others > 0 else listed


class Vocabulary(Struct, frozen=True, dict=True):
    """Bidirectional mapping between tokens and token ids.

    Parameters
    ----------
    tokens : tuple of str
        Distinct tokens; the index is the id.
    """

    tokens: tuple[str, ...]
    tokenizer: TokenizerKind = TokenizerKind.CHARACTERS

    @classmethod
    def from_tokens(cls, tokens: Iterable[str], tokenizer: TokenizerKind) -> Vocabulary:
        """Return the vocabulary of the distinct tokens, which are sorted by code points."""
        return cls(tuple(sorted(set(tokens))), tokenizer)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _id_by_token(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def __contains__(self, token: str) -> bool:
        return token in self._id_by_token

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the ids of tokens, int64 [token].

        Raises
        ------
        InputError
            If there are tokens that are not in the vocabulary; the message lists these tokens.
        """
        unknown = list(dict.fromkeys(token for token in tokens if token not in self))
        if unknown:
            verb = "is" if len(unknown) == 1 else "are"
            sentence = f"{format_token_list(unknown)} {verb} not in the model’s vocabulary."
            raise InputError("text", sentence)
        return np.fromiter((self._id_by_token[token] for token in tokens), np.int64, len(tokens))

    def tokenize_and_encode(self, text: str) -> tuple[tuple[str, ...], np.ndarray]:
        """Split a text into tokens, and return the tokens with their ids; see `encode`."""
        tokens = tokenize(text, self.tokenizer)
        return tokens, self.encode(tokens)

    def ids_to_tokens(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return the tokens with the given ids."""
        return tuple(self.tokens[number] for number in numbers)

    def join_tokens(self, tokens: Sequence[str]) -> str:
        """Join tokens into a text; words are separated by spaces, characters are not."""
        return (" " if self.tokenizer is TokenizerKind.WORDS else "").join(tokens)
