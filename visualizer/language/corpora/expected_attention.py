"""Expected attention of synthetic tasks, and the weight that heads place on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.corpora.synthetic_tasks import ARROW, END, PAIRS
from visualizer.language.training_settings import CorpusKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOWHERE = -1

_OPENING_OF = {pair[1]: pair[0] for pair in PAIRS}
_OPENING = set(_OPENING_OF.values())


def partners(kind: CorpusKind, tokens: Sequence[str]) -> np.ndarray:
    """Return for each query the key that determines the next token, int64 [token].

    It is `NOWHERE` if none is known, and never after the query. Any tokens are accepted: a text
    that is
    not a row of the task has few partners or none.

    - repeat: the token after the previous occurrence of the query's token. With several previous
      occurrences there is none: the token after each is the same, and a head that has learned to
      repeat attends to all of them equally;
    - copy, sorting: the position of the answer's next letter in the problem; defined for the arrow
      and the letters of an answer except the last, which is followed by an end;
    - brackets: the innermost open bracket, which may be the query's own; it is the one that may
      close next;
    - addition: for the queries before each digit of a sum, the first number's digit of the same
      place value, if there is one. The second number's digit and the carry are needed as well, so
      no head has to attend to this digit alone.
    """
    return np.array(_PARTNERS.get(kind, _no_partners)(tokens), np.int64)


def attending(weights: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Return each head's mean weight on the partners.

    Parameters
    ----------
    weights : ndarray
        [layer, head, query, key].
    partners : ndarray of int
        [query]; queries without a partner are ignored.

    Returns
    -------
    ndarray of float64
        [layer, head], from 0 to 1; NaN if no query has a partner.
    """
    (queries,) = np.nonzero(partners != NOWHERE)
    if not len(queries):
        return np.full(weights.shape[:2], np.nan)
    read: np.ndarray = weights[:, :, queries, partners[queries]].mean(axis=-1, dtype=np.float64)
    return read  # layer head


def _no_partners(tokens: Sequence[str]) -> list[int]:
    return [NOWHERE] * len(tokens)


def _repeat_partners(tokens: Sequence[str]) -> list[int]:
    seen: dict[str, list[int]] = {}
    partners = []
    for place, token in enumerate(tokens):
        before = seen.setdefault(token, [])
        partners.append(before[0] + 1 if len(before) == 1 else NOWHERE)
        before.append(place)
    return partners


def _bracket_partners(tokens: Sequence[str]) -> list[int]:
    opened: list[int] = []
    partners = []
    for place, token in enumerate(tokens):
        if token in _OPENING:
            opened.append(place)
        elif opened and tokens[opened[-1]] == _OPENING_OF.get(token):
            opened.pop()
        partners.append(opened[-1] if opened else NOWHERE)
    return partners


def _sorting_partners(tokens: Sequence[str]) -> list[int]:
    return _answer_partners(tokens, lambda given: sorted(given, key=lambda place: tokens[place]))


def _answer_partners(
    tokens: Sequence[str], in_order: Callable[[list[int]], list[int]]
) -> list[int]:
    """Return the positions of the problem's letters in the order of the answer."""
    partners = _no_partners(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == ARROW:
            given = in_order([*range(start, place)])
            partners[place : place + len(given)] = given[: len(tokens) - place]
    return partners


def _addition_partners(tokens: Sequence[str]) -> list[int]:
    partners = _no_partners(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == "=":
            _align_digits(tokens, start, place, partners)
    return partners


def _align_digits(tokens: Sequence[str], start: int, equals: int, found: list[int]) -> None:
    """Set the first number's digits as partners of the sum's digits, starting with the ones."""
    one, plus, other = "".join(tokens[start:equals]).partition("+")
    if not (plus and one.isdecimal() and other.isdecimal()):
        return
    size = len(str(int(one) + int(other)))
    for digit in range(size):
        query = equals + size - 1 - digit
        if digit < len(one) and query < len(tokens):
            found[query] = start + len(one) - 1 - digit


_PARTNERS: dict[CorpusKind, Callable[[Sequence[str]], list[int]]] = {
    CorpusKind.REPEAT: _repeat_partners,
    CorpusKind.COPY: lambda tokens: _answer_partners(tokens, lambda given: given),
    CorpusKind.BRACKETS: _bracket_partners,
    CorpusKind.SORTING: _sorting_partners,
    CorpusKind.ADDITION: _addition_partners,
}
