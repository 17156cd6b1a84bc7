"""Synthetic tasks: generation of their rows, and the attention that solves them.

The last problem of a row may be truncated. Examples of rows with 16 characters:

- repeat: a segment of letters that is repeated, ``kbxkbxkbxkbxkbxk``;
- copy: letters, followed by a copy of them, ``qhd>qhd.wa>wa.mz``;
- brackets: six kinds of brackets, correctly nested, ``{[]()}<{<>}>«»((“``;
- sorting: letters, followed by the same letters in alphabetical order, ``hdq>dhq.wa>aw.zm``;
- addition: two numbers below 100, followed by their sum, ``27+58=85.6+40=46``.

Sources: Olsson et al. 2022, "In-context Learning and Induction Heads" (repeated segments); Weiss et
al. 2021, "Thinking Like Transformers" (sorting, brackets).
"""

from __future__ import annotations

from functools import cache, partial
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.training_settings import CorpusKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ARROW, END = ">", "."
BRACKET_PAIRS = ("()", "<>", "[]", "{}", "«»", "“”")
ALPHABETS = {
    CorpusKind.REPEAT: ascii_lowercase,
    CorpusKind.COPY: END + ARROW + ascii_lowercase,
    CorpusKind.BRACKETS: "".join(BRACKET_PAIRS),
    CorpusKind.SORTING: END + ARROW + ascii_lowercase,
    CorpusKind.ADDITION: "+.0123456789=",
}
"""Characters of each task, sorted by code point; a character's index is its token id."""

MAX_TASK_LETTERS = 8
"""Maximum number of letters to copy or sort."""
MAX_BRACKET_DEPTH = 4
"""Maximum number of brackets that are open at the same time."""
ADDEND_LIMIT = 100
"""Exclusive upper limit for the numbers to add."""
VALUES_PER_BATCH = 1 << 20
"""Approximate number of values per generated batch, which limits the temporary memory."""


def generate_rows(
    kind: CorpusKind, count: int, length: int, generator: np.random.Generator
) -> np.ndarray:
    """Generate rows of a task as indices into its alphabet, int64 [count, length]."""
    result = np.empty((count, length), np.int64)
    step = max(1, VALUES_PER_BATCH // length)
    for start in range(0, count, step):
        part = result[start : start + step]
        part[:] = _ROW_GENERATORS[kind](len(part), length, generator)
    return result


def _generate_repeat_rows(count: int, length: int, generator: np.random.Generator) -> np.ndarray:
    """Generate rows that repeat a segment of 2 or more distinct letters at least twice."""
    most = min(max(2, length // 2), len(ascii_lowercase))
    sizes = generator.integers(2, most + 1, size=(count, 1))
    letters = _sample_distinct_letters(count, most, generator)
    return np.take_along_axis(letters, np.arange(length) % sizes, axis=1)


def _generate_bracket_rows(count: int, length: int, generator: np.random.Generator) -> np.ndarray:
    """Generate rows in which each token opens a bracket or closes the innermost one."""
    result = np.empty((count, length), np.int64)
    opened = np.zeros((count, MAX_BRACKET_DEPTH), np.int64)  # row depth
    depth = np.zeros(count, np.int64)
    every = np.arange(count)
    for place in range(length):
        opens = (depth == 0) | ((depth < MAX_BRACKET_DEPTH) & (generator.random(count) < 0.5))
        kinds = generator.integers(len(BRACKET_PAIRS), size=count)
        result[:, place] = np.where(opens, 2 * kinds, 2 * opened[every, depth - 1] + 1)
        opened[every[opens], depth[opens]] = kinds[opens]
        depth += np.where(opens, 1, -1)
    return result


def _generate_copy_or_sort_rows(
    count: int, length: int, generator: np.random.Generator, *, is_sorted: bool
) -> np.ndarray:
    """Generate rows of 2 to `MAX_TASK_LETTERS` distinct letters and their copy or sorted copy."""
    most = min(MAX_TASK_LETTERS, max(2, length // 2 - 1))
    total = count * _max_problems_per_row(length, 2 * 2 + 2)
    sizes = generator.integers(2, most + 1, size=total)
    letters = _sample_distinct_letters(total, most, generator) + 2  # after the end and the arrow
    problems = np.zeros((total, 2 * most + 2), np.int64)
    for size in range(2, most + 1):
        chosen = sizes == size
        question = letters[chosen, :size]
        answer = np.sort(question, axis=1) if is_sorted else question
        problems[chosen, :size] = question
        problems[chosen, size] = 1
        problems[chosen, size + 1 : 2 * size + 1] = answer
    return _pack_problems_into_rows(count, length, problems, 2 * sizes + 2)


def _generate_addition_rows(count: int, length: int, generator: np.random.Generator) -> np.ndarray:
    numbers = generator.integers(
        ADDEND_LIMIT, size=(count * _max_problems_per_row(length, len("0+0=0.")), 2)
    )
    known, sizes = _list_all_sums()
    places = numbers[:, 0] * ADDEND_LIMIT + numbers[:, 1]
    return _pack_problems_into_rows(count, length, known[places], sizes[places])


@cache
def _list_all_sums() -> tuple[np.ndarray, np.ndarray]:
    """Return the characters of all sums, [sum, character], and their lengths, [sum]."""
    texts = [
        f"{one}+{other}={one + other}."
        for one in range(ADDEND_LIMIT)
        for other in range(ADDEND_LIMIT)
    ]
    sizes = np.array([len(text) for text in texts])
    place = ALPHABETS[CorpusKind.ADDITION].index
    known = np.array([[place(sign) for sign in text.ljust(sizes.max(), END)] for text in texts])
    return known, sizes


def _sample_distinct_letters(count: int, most: int, generator: np.random.Generator) -> np.ndarray:
    """Sample `most` distinct letters for each row, [row, letter]."""
    return generator.random((count, len(ascii_lowercase))).argsort(axis=1)[:, :most]


def _max_problems_per_row(length: int, shortest: int) -> int:
    """Return the number of problems required to fill a row if each has the minimum length."""
    return -(-length // shortest)


def _pack_problems_into_rows(
    count: int, length: int, problems: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Fill rows with consecutive problems, [problem, character]; the last one may be truncated."""
    ends = sizes.reshape(count, -1).cumsum(axis=1)
    starts = (ends - sizes.reshape(count, -1)).ravel()
    row = np.repeat(np.arange(count), ends.shape[1])
    result = np.empty((count, length), np.int64)
    for place in range(problems.shape[1]):
        fits = (place < sizes) & (starts + place < length)
        result[row[fits], starts[fits] + place] = problems[fits, place]
    return result


_ROW_GENERATORS: dict[CorpusKind, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    CorpusKind.REPEAT: _generate_repeat_rows,
    CorpusKind.COPY: partial(_generate_copy_or_sort_rows, is_sorted=False),
    CorpusKind.BRACKETS: _generate_bracket_rows,
    CorpusKind.SORTING: partial(_generate_copy_or_sort_rows, is_sorted=True),
    CorpusKind.ADDITION: _generate_addition_rows,
}


MISSING_PARTNER = -1

_OPENING_OF = {pair[1]: pair[0] for pair in BRACKET_PAIRS}
_OPENING = set(_OPENING_OF.values())


def find_partner_keys(kind: CorpusKind, tokens: Sequence[str]) -> np.ndarray:
    """For each query, return the key that determines the next token, int64 [token].

    A key is never later than its query; if a query has no such key, it is `MISSING_PARTNER`. Any
    tokens are accepted, but a text that is not a row of the task has few partners or none.

    - repeat: the token after the previous occurrence of the query's token. If there are several
      previous occurrences, no single key is expected: the token after each of them is the same, and
      a head that has learned to repeat attends to all of them equally;
    - copy, sorting: the position of the answer's next letter in the problem; it is defined for the
      arrow and for all letters of an answer except the last one, which is followed by an end;
    - brackets: the innermost open bracket, which may be the query itself; it is the only bracket
      that may be closed next;
    - addition: for the query before each digit of a sum, the digit of the first number that has the
      same place value, if there is one. The second number's digit and the carry are also needed, so
      no head has to attend only to this digit.
    """
    return np.array(_PARTNERS.get(kind, _no_partners)(tokens), np.int64)


def mean_partner_weight(weights: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Return each head's mean weight on the partners.

    Parameters
    ----------
    weights : ndarray
        The attention weights, [layer, head, query, key].
    partners : ndarray of int
        The partner of each query, [query]; queries that have no partner are ignored.

    Returns
    -------
    ndarray of float64
        The mean weights, [layer, head], from 0 to 1; NaN if no query has a partner.
    """
    (queries,) = np.nonzero(partners != MISSING_PARTNER)
    if not len(queries):
        return np.full(weights.shape[:2], np.nan)
    read: np.ndarray = weights[:, :, queries, partners[queries]].mean(axis=-1, dtype=np.float64)
    return read  # layer head


def _no_partners(tokens: Sequence[str]) -> list[int]:
    return [MISSING_PARTNER] * len(tokens)


def _repeat_partners(tokens: Sequence[str]) -> list[int]:
    seen: dict[str, list[int]] = {}
    partners = []
    for place, token in enumerate(tokens):
        before = seen.setdefault(token, [])
        partners.append(before[0] + 1 if len(before) == 1 else MISSING_PARTNER)
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
        partners.append(opened[-1] if opened else MISSING_PARTNER)
    return partners


def _copy_or_sort_partners(tokens: Sequence[str], *, is_sorted: bool) -> list[int]:
    """Return the positions of the problem's letters in the order of the answer."""
    partners = _no_partners(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == ARROW:
            letters = [*range(start, place)]
            if is_sorted:
                letters.sort(key=tokens.__getitem__)
            partners[place : place + len(letters)] = letters[: len(tokens) - place]
    return partners


def _addition_partners(tokens: Sequence[str]) -> list[int]:
    partners = _no_partners(tokens)
    start = 0
    for place, token in enumerate(tokens):
        if token == END:
            start = place + 1
        elif token == "=":
            _add_digit_partners(tokens, start, place, partners)
    return partners


def _add_digit_partners(tokens: Sequence[str], start: int, equals: int, found: list[int]) -> None:
    """Make the first number's digits the partners of the sum's digits, starting with the units."""
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
    CorpusKind.COPY: partial(_copy_or_sort_partners, is_sorted=False),
    CorpusKind.BRACKETS: _bracket_partners,
    CorpusKind.SORTING: partial(_copy_or_sort_partners, is_sorted=True),
    CorpusKind.ADDITION: _addition_partners,
}
