"""Fast tokenization of long texts to numbers: seconds where `tokenize` would take minutes.

The text is cut into pieces where every token ends. In a piece of characters, those that join with
no neighbour are tokens by themselves, and only the rest is split by `tokenize`; of words, each
distinct run without spaces is split once.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.tokenizers import Tokenizer, Vocabulary, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

PIECE = 1 << 20
"""Approximate number of characters in a piece."""
_LINE_END = 0x110000
"""Stands for a carriage return with a line feed, which are one token; no code point."""
_UNKNOWN = -1
_JOINS = -2


def number(text: str, tokenizer: Tokenizer) -> tuple[Vocabulary, np.ndarray]:
    """Encode a text by the vocabulary of all its tokens.

    Returns
    -------
    Vocabulary
        All tokens of the text.
    ndarray of int64
        [token]; equal to ``Vocabulary.of(tokenize(text)).encode(tokenize(text))``.
    """
    counter = CharacterEncoder() if tokenizer is Tokenizer.CHARACTERS else WordEncoder()
    numbers = np.empty(len(text), np.int64)  # at least one per token; unused pages take
    end = 0  # no memory
    for piece in _pieces(text):
        found = counter.count(piece)
        numbers[end : end + len(found)] = found
        end += len(found)
    numbers = numbers[:end]
    return _in_order(list(counter.known), numbers, tokenizer), numbers


def _in_order(known: list[str], numbers: np.ndarray, tokenizer: Tokenizer) -> Vocabulary:
    """Renumber, in place, indices of known tokens to those of the vocabulary of used ones."""
    is_used = np.bincount(numbers, minlength=len(known)) > 0
    used = [token for token, is_one in zip(known, is_used, strict=True) if is_one]
    vocabulary = Vocabulary.of(used, tokenizer)
    places = np.zeros(len(known), np.int64)
    places[is_used] = vocabulary.encode(used)
    for start in range(0, len(numbers), PIECE):
        part = numbers[start : start + PIECE]
        part[:] = places[part]
    return vocabulary


def _pieces(text: str) -> Iterator[str]:
    """Cut a text before characters that follow a space or line feed, where every token ends."""
    start = 0
    while start < len(text):
        cut = _cut().search(text, min(start + PIECE, len(text)))
        end = cut.end() if cut else len(text)
        yield text[start:end]
        start = end


class CharacterEncoder:
    """Encodes grapheme clusters; `known` has each once, in order of occurrence."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._tokens = np.full(_LINE_END + 1, _UNKNOWN, np.int32)  # of each code point

    def count(self, piece: str) -> np.ndarray:
        """Number the tokens of a piece, int32 [token], in the order in which they are known."""
        codes = _with_line_ends(np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), "<u4"))
        tokens = self._tokens[codes]
        if (tokens == _UNKNOWN).any():
            self._learn(codes[tokens == _UNKNOWN])
            tokens = self._tokens[codes]
        joins = tokens == _JOINS
        return self._among(codes, tokens, joins) if joins.any() else tokens

    def _learn(self, codes: np.ndarray) -> None:
        for code in np.unique(codes).tolist():
            letter = chr(code) if code != _LINE_END else "\r\n"
            is_alone = code == _LINE_END or _alone().fullmatch(letter)
            self._tokens[code] = _place(self.known, letter) if is_alone else _JOINS

    def _among(self, codes: np.ndarray, tokens: np.ndarray, joins: np.ndarray) -> np.ndarray:
        """Split joining characters with their neighbours, and merge the tokens in order."""
        near = joins.copy()
        near[1:] |= joins[:-1]
        near[:-1] |= joins[1:]
        near[(codes == _LINE_END) | (codes == ord("\n"))] = False  # line ends never join
        edges = np.flatnonzero(np.diff(near, prepend=False, append=False)).reshape(-1, 2)
        # All parts to split are joined to one text, separated by line feeds.
        lines = np.insert(codes[near], np.cumsum(edges[:, 1] - edges[:, 0])[:-1], ord("\n"))
        split = tokenize(lines.tobytes().decode("utf-32-le", "surrogatepass"), Tokenizer.CHARACTERS)
        places = np.fromiter((_place(self.known, token) for token in split), np.int32, len(split))
        between = places == self.known.get("\n", _UNKNOWN)
        part = np.cumsum(between)[~between]
        alone = np.flatnonzero(~near)
        order = np.concatenate([alone, edges[part, 0]]).argsort(kind="stable")
        joined: np.ndarray = np.concatenate([tokens[alone], places[~between]])[order]
        return joined


class WordEncoder:
    """Encodes words; `known` has each once, in order of occurrence."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._runs: dict[str, list[int]] = {}

    def count(self, piece: str) -> np.ndarray:
        """Number the tokens of a piece, int32 [token], in the order in which they are known."""
        joined = _joins_ahead().search(piece)
        runs = [piece] if joined else piece.replace("\n", " ").split(" ")
        for run in dict.fromkeys(runs):
            if run not in self._runs:
                split = tokenize(run, Tokenizer.WORDS)
                self._runs[run] = [_place(self.known, token) for token in split]
        found = chain.from_iterable(map(self._runs.__getitem__, runs))
        return np.fromiter(found, np.int32)


def _with_line_ends(codes: np.ndarray) -> np.ndarray:
    ends = np.flatnonzero((codes[:-1] == ord("\r")) & (codes[1:] == ord("\n")))
    if not len(ends):
        return codes
    codes = codes.copy()
    codes[ends] = _LINE_END
    return np.delete(codes, ends + 1)


def _place(known: dict[str, int], token: str) -> int:
    return known.setdefault(token, len(known))


# By Unicode UAX #29 these classes do not join among themselves, only with other classes.
_ALONE = r"[\p{GCB=Other}\p{GCB=Control}\p{GCB=LV}\p{GCB=LVT}\n]"
# These join with the following character, even a space.
_AHEAD = r"\p{GCB=Prepend}"


@cache
def _alone() -> regex.Pattern[str]:
    import regex  # imported late, as loading it takes time

    return regex.compile(_ALONE)


@cache
def _joins_ahead() -> regex.Pattern[str]:
    import regex

    return regex.compile(_AHEAD)


@cache
def _cut() -> regex.Pattern[str]:
    import regex

    return regex.compile(rf"(?<!{_AHEAD})[ \n](?={_ALONE})")
