"""From text to tokens, in any script; no torch.

Words follow letters, marks and digits; scripts written without spaces give a token a character.
Characters are what a reader sees as one (extended grapheme clusters, Unicode UAX #29).
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
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
