"""From text to tokens, in any script; no torch.

Words follow letters, marks and digits; scripts written without spaces give a token a character.
Characters are what a reader sees as one (extended grapheme clusters, Unicode UAX #29).
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
_VISIBLE = {" ": "␣", "\n": "⏎", "\r\n": "⏎", "\r": "⏎", "\t": "⇥", "\u00a0": "⍽", "\x7f": "␡"}


class Tokenizer(StrEnum):
    """What counts as one token."""

    WORDS = "words"
    CHARACTERS = "characters"


def tokenize(text: str, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Split a text; words leave white space out, characters keep it."""
    return tuple(_pattern(tokenizer).findall(text))


@cache
def _pattern(tokenizer: Tokenizer) -> regex.Pattern[str]:
    import regex  # not before the first text is read, as it takes time to start

    if tokenizer is Tokenizer.CHARACTERS:
        return regex.compile(r"\X")
    word = rf"(?:(?!{_UNSPACED})[\p{{L}}\p{{N}}_]\p{{M}}*)+"
    return regex.compile(rf"{_UNSPACED}|{word}(?:['’]{word})*|(?!\s)\X")


def visible(token: str) -> str:
    """Write a token so that it can be seen: white space and control characters as symbols."""
    if token in _VISIBLE:
        return _VISIBLE[token]
    return "".join(chr(0x2400 + ord(letter)) if letter < " " else letter for letter in token)
