"""Where a query should read to say the next token of a task, and how much of a head does so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.corpora.synthetic_tasks import ARROW, END, PAIRS
from visualizer.language.training_settings import CorpusKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOWHERE = -1

_CLOSES = {pair[1]: pair[0] for pair in PAIRS}
_OPENS = set(_CLOSES.values())


def partners(kind: CorpusKind, tokens: Sequence[str]) -> np.ndarray:
    """Give for the query at each place the key that tells the next token, int64 [token].

    It is `NOWHERE` where none is known, and never later than the query. The tokens may be any: what
    is no row of the task has few partners, or none.

    - repeat: the token after the previous occurrence of the query's own. Where there were more
      before, there is none: what follows each of them says the same, and a head that has learned
      to repeat reads them all in equal parts;
    - copy, sorting: where the next letter of the answer stands in what is given; the arrow and the
      letters of an answer have one, but the last, after which comes an end;
    - brackets: the innermost bracket that is open, the query's own if it has just opened; the
      bracket that may close next is its partner;
    - addition: for the queries before each digit of a sum, the digit of the first number at the
      same place (ones, tens), where it has one. The second number's digit and what is carried are
      needed as much, so no head need look here alone.
    """
    return np.array(_PARTNERS.get(kind, _none)(tokens), np.int64)


def attending(weights: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Give the mean weight that each head has on the partners.

    Parameters
    ----------
    weights : ndarray
        [layer, head, query, key].
    partners : ndarray of int
        [query]; queries without one do not count.

    Returns
    -------
    ndarray of float64
        [layer, head], from 0 to 1; NaN when no query has a partner.
    """
    (queries,) = np.nonzero(partners != NOWHERE)
    if not len(queries):
        return np.full(weights.shape[:2], np.nan)
    read: np.ndarray = weights[:, :, queries, partners[queries]].mean(axis=-1, dtype=np.float64)
    return read  # layer head


def _none(tokens: Sequence[str]) -> list[int]:
    return [NOWHERE] * len(tokens)


def _repeated(tokens: Sequence[str]) -> list[int]:
    seen: dict[str, list[int]] = {}
    found = []
    for place, token in enumerate(tokens):
        before = seen.setdefault(token, [])
        found.append(before[0] + 1 if len(before) == 1 else NOWHERE)
        before.append(place)
    return found


def _bracketed(tokens: Sequence[str]) -> list[int]:
    opened: list[int] = []
    found = []
    for place, token in enumerate(tokens):
        if token in _OPENS:
            opened.append(place)
        elif opened and tokens[opened[-1]] == _CLOSES.get(token):
            opened.pop()
        found.append(opened[-1] if opened else NOWHERE)
    return found


def _copied(tokens: Sequence[str]) -> list[int]:
    return _answered(tokens, lambda given: given)


def _sorted(tokens: Sequence[str]) -> list[int]:
    return _answered(tokens, lambda given: sorted(given, key=lambda place: tokens[place]))


def _answered(tokens: Sequence[str], in_order: Callable[[list[int]], list[int]]) -> list[int]:
    """Give the places of what is given, in the order in which the answer has it."""
    found = _none(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == ARROW:
            given = in_order([*range(start, place)])
            found[place : place + len(given)] = given[: len(tokens) - place]
    return found


def _added(tokens: Sequence[str]) -> list[int]:
    found = _none(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == "=":
            _align(tokens, start, place, found)
    return found


def _align(tokens: Sequence[str], start: int, equals: int, found: list[int]) -> None:
    """Find the digits of the first number for those of the sum, from the ones on."""
    one, plus, other = "".join(tokens[start:equals]).partition("+")
    if not (plus and one.isdecimal() and other.isdecimal()):
        return
    size = len(str(int(one) + int(other)))
    for digit in range(size):
        query = equals + size - 1 - digit
        if digit < len(one) and query < len(tokens):
            found[query] = start + len(one) - 1 - digit


_PARTNERS: dict[CorpusKind, Callable[[Sequence[str]], list[int]]] = {
    CorpusKind.REPEAT: _repeated,
    CorpusKind.COPY: _copied,
    CorpusKind.BRACKETS: _bracketed,
    CorpusKind.SORTING: _sorted,
    CorpusKind.ADDITION: _added,
}
