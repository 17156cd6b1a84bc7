"""Encodes long texts in seconds; `tokenize` would take minutes to split them.

The text is split into pieces at positions that are always token boundaries. With character tokens,
characters that never join with a neighbour are separate tokens, and only the others are split by
`tokenize`. With word tokens, each distinct run of characters without spaces is split only once.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

CHARACTERS_PER_PIECE = 1 << 20
"""Approximate number of characters in a piece."""
_LINE_END = 0x110000
"""Value for a carriage return and line feed, which form one token; it is not a code point."""
_UNKNOWN = -1
_JOINING = -2


def encode_text(text: str, tokenizer: TokenizerKind) -> tuple[Vocabulary, np.ndarray]:
    """Encode a text, using the vocabulary of all its tokens.

    Returns
    -------
    Vocabulary
        All tokens of the text.
    ndarray of int64
        The token ids, [token], equal to ``Vocabulary.of(tokenize(text)).encode(tokenize(text))``.
    """
    encoder = CharacterEncoder() if tokenizer is TokenizerKind.CHARACTERS else WordEncoder()
    # Every token has at least one character; unused pages take no memory.
    numbers, end = np.empty(len(text), np.int64), 0
    for piece in _split_pieces(text):
        encoded = encoder.encode_piece(piece)
        numbers[end : end + len(encoded)] = encoded
        end += len(encoded)
    numbers = numbers[:end]
    return _build_sorted_vocabulary(list(encoder.known), numbers, tokenizer), numbers


def _build_sorted_vocabulary(
    known: list[str], numbers: np.ndarray, tokenizer: TokenizerKind
) -> Vocabulary:
    """Return the vocabulary of the used tokens, and replace their indices with ids in place."""
    is_used = np.bincount(numbers, minlength=len(known)) > 0
    used = [token for token, is_one in zip(known, is_used, strict=True) if is_one]
    vocabulary = Vocabulary.from_tokens(used, tokenizer)
    places = np.zeros(len(known), np.int64)
    places[is_used] = vocabulary.encode(used)
    for start in range(0, len(numbers), CHARACTERS_PER_PIECE):
        part = numbers[start : start + CHARACTERS_PER_PIECE]
        part[:] = places[part]
    return vocabulary


def _split_pieces(text: str) -> Iterator[str]:
    """Split a text after a space or line feed if that is always a token boundary."""
    start = 0
    while start < len(text):
        cut = _compile_pattern(_BOUNDARY).search(text, min(start + CHARACTERS_PER_PIECE, len(text)))
        end = cut.end() if cut else len(text)
        yield text[start:end]
        start = end


class CharacterEncoder:
    """Encodes grapheme clusters; `known` contains each cluster once, in the order of occurrence."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._tokens = np.full(_LINE_END + 1, _UNKNOWN, np.int32)  # token of each code point

    def encode_piece(self, piece: str) -> np.ndarray:
        """Return the indices in `known` of a piece's tokens, int32 [token]."""
        codes = _merge_line_ends(np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), "<u4"))
        tokens = self._tokens[codes]
        if (tokens == _UNKNOWN).any():
            self._add_characters(codes[tokens == _UNKNOWN])
            tokens = self._tokens[codes]
        joins = tokens == _JOINING
        return self._tokenize_joining_characters(codes, tokens, joins) if joins.any() else tokens

    def _add_characters(self, codes: np.ndarray) -> None:
        for code in np.unique(codes).tolist():
            letter = chr(code) if code != _LINE_END else "\r\n"
            is_alone = code == _LINE_END or _compile_pattern(_SINGLE).fullmatch(letter)
            self._tokens[code] = _index_or_add(self.known, letter) if is_alone else _JOINING

    def _tokenize_joining_characters(
        self, codes: np.ndarray, tokens: np.ndarray, joins: np.ndarray
    ) -> np.ndarray:
        """Tokenize joining characters with their neighbours, and merge all tokens in order."""
        near = joins.copy()
        near[1:] |= joins[:-1]
        near[:-1] |= joins[1:]
        near[(codes == _LINE_END) | (codes == ord("\n"))] = False  # line ends never join
        edges = np.flatnonzero(np.diff(near, prepend=False, append=False)).reshape(-1, 2)
        # All parts that have to be split are joined into one text, separated by line feeds.
        lines = np.insert(codes[near], np.cumsum(edges[:, 1] - edges[:, 0])[:-1], ord("\n"))
        split = tokenize(
            lines.tobytes().decode("utf-32-le", "surrogatepass"), TokenizerKind.CHARACTERS
        )
        places = np.fromiter(
            (_index_or_add(self.known, token) for token in split), np.int32, len(split)
        )
        between = places == self.known.get("\n", _UNKNOWN)
        part = np.cumsum(between)[~between]
        alone = np.flatnonzero(~near)
        order = np.concatenate([alone, edges[part, 0]]).argsort(kind="stable")
        joined: np.ndarray = np.concatenate([tokens[alone], places[~between]])[order]
        return joined


class WordEncoder:
    """Encodes words; `known` contains each word once, in the order of occurrence."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._runs: dict[str, list[int]] = {}

    def encode_piece(self, piece: str) -> np.ndarray:
        """Return the indices in `known` of a piece's tokens, int32 [token]."""
        joined = _compile_pattern(_PREPEND).search(piece)
        runs = [piece] if joined else piece.replace("\n", " ").split(" ")
        for run in dict.fromkeys(runs):
            if run not in self._runs:
                split = tokenize(run, TokenizerKind.WORDS)
                self._runs[run] = [_index_or_add(self.known, token) for token in split]
        indices = chain.from_iterable(map(self._runs.__getitem__, runs))
        return np.fromiter(indices, np.int32)


def _merge_line_ends(codes: np.ndarray) -> np.ndarray:
    ends = np.flatnonzero((codes[:-1] == ord("\r")) & (codes[1:] == ord("\n")))
    if not len(ends):
        return codes
    codes = codes.copy()
    codes[ends] = _LINE_END
    return np.delete(codes, ends + 1)


def _index_or_add(known: dict[str, int], token: str) -> int:
    return known.setdefault(token, len(known))


# According to Unicode UAX #29, characters of these classes join only with characters of other
# classes.
_SINGLE = r"[\p{GCB=Other}\p{GCB=Control}\p{GCB=LV}\p{GCB=LVT}\n]"
# These characters join with the following character, even if it is a space.
_PREPEND = r"\p{GCB=Prepend}"


_BOUNDARY = rf"(?<!{_PREPEND})[ \n](?={_SINGLE})"


@cache
def _compile_pattern(expression: str) -> regex.Pattern[str]:
    import regex  # imported late, because loading it takes time

    return regex.compile(expression)
