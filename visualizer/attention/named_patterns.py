"""Head measures for long texts from patterns with one key per query; imports no torch.

A single weight is exp(s − l) if l, the log-sum-exp of its row, is known, so the time is linear in
the length of the text instead of quadratic.

Sources: Clark et al. 2019, "What Does BERT Look At?", §3 (previous token, first token, itself);
Olsson et al. 2022, "In-context Learning and Induction Heads" (induction); Wang et al. 2022,
"Interpretability in the Wild" (duplicate token heads).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.head_measures import HeadMeasures
from visualizer.attention.masks import key_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.attention.blockwise_tensor import BlockwiseTensor
    from visualizer.attention.masks import Masking

Pattern = tuple["np.ndarray", "np.ndarray"]
"""Queries, and the key of each."""


def patterns(words: tuple[str, ...]) -> dict[str, Pattern]:
    """Return the patterns of a text, by their fields in `HeadMeasures`.

    For duplicates and induction, only the last earlier occurrence of a token is used.
    """
    every = np.arange(len(words))
    found = {
        "previous": (every[1:], every[:-1]),
        "first": (every, np.zeros_like(every)),
        "own": (every, every),
    }
    earlier: dict[str, tuple[int, int]] = {}
    same, after = [], []
    for query, word in enumerate(words):
        last, before = earlier.get(word, (-1, -1))
        if last >= 0:
            same.append((query, last))
        followed = last if last + 1 < query else before  # the query itself does not count
        if followed >= 0:
            after.append((query, followed + 1))
        earlier[word] = (query, last)
    for name, pairs in (("duplicate", same), ("induction", after)):
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        found[name] = (np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]))
    return found


def measure_patterns(weights: BlockwiseTensor, words: tuple[str, ...]) -> HeadMeasures:
    """Measure every head by the patterns; measures that need all weights are NaN.

    Parameters
    ----------
    weights : BlockwiseTensor
        A tensor that can compute single numbers of a row (`BlockwiseTensor.are_rows_known`).
    words : tuple of str
        The tokens of the text.
    """
    leading = weights.shape[:-2]
    means = {name: np.full(leading, math.nan) for name in patterns(words)}
    for name, (queries, keys) in patterns(words).items():
        for place in _leading_indices(leading) if len(queries) else ():
            means[name][place] = weights.at_keys(place, queries, keys).mean(dtype=np.float64)
    return _create_measures(means, leading, len(words))


def measure_uniform_patterns(masking: Masking, words: tuple[str, ...]) -> HeadMeasures:
    """Return the same measures for a head that attends to all allowed keys equally, [1]."""
    count = len(words)
    means = {name: np.full(1, math.nan) for name in patterns(words)}
    ranges = key_ranges(masking, count, 0)
    assert ranges is not None  # long texts have no custom masks
    starts, stops = ranges
    for name, (queries, keys) in patterns(words).items():
        if len(queries):
            start, stop = starts[queries], stops[queries]
            is_read = (keys >= start) & (keys < stop)
            means[name][0] = (is_read / np.maximum(1, stop - start)).mean()
    return _create_measures(means, (1,), count)


def _leading_indices(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield from np.ndindex(*sizes)


def _create_measures(
    means: Mapping[str, np.ndarray], sizes: tuple[int, ...], queries: int
) -> HeadMeasures:
    """Return read-only measures; those without means are NaN."""
    unknown = np.full(sizes, math.nan)
    known = {name: means.get(name, unknown) for name in HeadMeasures.__struct_fields__}
    known["queries"] = np.full(sizes, float(queries))
    for array in known.values():
        array.flags.writeable = False
    return HeadMeasures(**known)
