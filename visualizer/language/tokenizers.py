"""From text to tokens, in any script; no torch.

Words follow letters, marks and digits; scripts written without spaces give a token a character.
Characters are what a reader sees as one (extended grapheme clusters, Unicode UAX #29).

The tokens that a language model knows, in both directions; no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING
from unicodedata import category

import numpy as np

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import regex

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
_VISIBLE = {" ": "␣", "\n": "⏎", "\r\n": "⏎", "\r": "⏎", "\t": "⇥", "\u00a0": "⍽", "\x7f": "␡"}
# Controls, formats, lone surrogates, separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}


class Tokenizer(StrEnum):
    """What counts as one token."""

    WORDS = "words"
    CHARACTERS = "characters"


def tokenize(text: str, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Split a text; words leave white space out, characters keep it."""
    # One by one: a search for all of a novel at once would hold up every other thread.
    return tuple(match.group() for match in _pattern(tokenizer).finditer(text))


@cache
def _pattern(tokenizer: Tokenizer) -> regex.Pattern[str]:
    import regex  # not before the first text is read, as it takes time to start

    if tokenizer is Tokenizer.CHARACTERS:
        return regex.compile(r"\X")
    # Joiners belong to the word: ශ්‍රී, می‌خواهم.
    word = rf"(?:(?!{_UNSPACED})[\p{{L}}\p{{N}}_][\p{{M}}\u200c\u200d]*)+"
    return regex.compile(rf"{_UNSPACED}|{word}(?:['’]{word})*|(?!\s)\X")


@lru_cache(maxsize=4)
def all_visible(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Write each token of a text so that it can be seen."""
    return tuple(visible(token) for token in tokens)


def visible(token: str) -> str:
    """Write a token so that it can be seen: white space and the like as symbols or by number."""
    if token in _VISIBLE:
        return _VISIBLE[token]
    if any(category(letter) not in _UNSEEN for letter in token):
        return token
    return " ".join(_symbol(letter) for letter in token)


def _symbol(letter: str) -> str:
    known = _VISIBLE.get(letter)
    return known or (chr(0x2400 + ord(letter)) if letter < " " else f"U+{ord(letter):04X}")


MOST_SAID = 5


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by their numbers.

    Parameters
    ----------
    tokens : tuple of str
        Each once; the place is the number.
    """

    tokens: tuple[str, ...]
    tokenizer: Tokenizer = Tokenizer.CHARACTERS

    @classmethod
    def of(cls, tokens: Iterable[str], tokenizer: Tokenizer) -> Vocabulary:
        """Take every token of a text once, in the order of the alphabet."""
        return cls(tuple(sorted(set(tokens))), tokenizer)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def __contains__(self, token: str) -> bool:
        return token in self._numbers

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """Give the numbers of tokens, int64 [token].

        Raises
        ------
        InputError
            When some are not known; it names them, and nothing is left out.
        """
        unknown = list(dict.fromkeys(token for token in tokens if token not in self))
        if unknown:
            said = ", ".join(f"“{visible(token)}”" for token in unknown[:MOST_SAID])
            more = f" and {len(unknown) - MOST_SAID:,} more" if len(unknown) > MOST_SAID else ""
            does = "is" if len(unknown) == 1 else "are"
            sentence = f"{said}{more} {does} not in the text that was learned."
            raise InputError("text", sentence)
        return np.fromiter((self._numbers[token] for token in tokens), np.int64, len(tokens))

    def read(self, text: str) -> tuple[tuple[str, ...], np.ndarray]:
        """Split a text into tokens and give their numbers; see `encode`."""
        tokens = tokenize(text, self.tokenizer)
        return tokens, self.encode(tokens)

    def decode(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Give the tokens of numbers."""
        return tuple(self.tokens[number] for number in numbers)

    def write(self, tokens: Sequence[str]) -> str:
        """Put tokens together to a text: words with spaces between them, characters without."""
        return (" " if self.tokenizer is Tokenizer.WORDS else "").join(tokens)
