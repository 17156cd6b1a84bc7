"""How much heads of a long text read by a few patterns of one key a query; imports no torch.

The weight of a single key is exp(s − l) where l, the logarithm of the row's sum of exponentials,
is known, so that this takes as long as the text and not its square.

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
    """Return the patterns of a text by the fields of `HeadMeasures`.

    Of the same token earlier, and of what followed it, the last one is taken.
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
        followed = last if last + 1 < query else before  # not by the query itself
        if followed >= 0:
            after.append((query, followed + 1))
        earlier[word] = (query, last)
    for name, pairs in (("duplicate", same), ("induction", after)):
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        found[name] = (np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]))
    return found


def measure_patterns(weights: BlockwiseTensor, words: tuple[str, ...]) -> HeadMeasures:
    """Measure every head by the patterns; of what would take all weights there is NaN.

    Parameters
    ----------
    weights : BlockwiseTensor
        Of which single numbers of a row can be computed.
    words : tuple of str
        The tokens, of which each reads the others.
    """
    leading = weights.shape[:-2]
    means = {name: np.full(leading, math.nan) for name in patterns(words)}
    for name, (queries, keys) in patterns(words).items():
        for place in _places(leading) if len(queries) else ():
            means[name][place] = weights.at_keys(place, queries, keys).mean(dtype=np.float64)
    return _measures(means, leading, len(words))


def measure_uniform_patterns(masking: Masking, words: tuple[str, ...]) -> HeadMeasures:
    """Measure a head that reads every key alike that it may read, likewise, [1]."""
    count = len(words)
    means = {name: np.full(1, math.nan) for name in patterns(words)}
    ranges = key_ranges(masking, count, 0)
    assert ranges is not None  # masks of a long text are rules
    starts, stops = ranges
    for name, (queries, keys) in patterns(words).items():
        if len(queries):
            start, stop = starts[queries], stops[queries]
            is_read = (keys >= start) & (keys < stop)
            means[name][0] = (is_read / np.maximum(1, stop - start)).mean()
    return _measures(means, (1,), count)


def _places(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield from np.ndindex(*sizes)


def _measures(
    means: Mapping[str, np.ndarray], sizes: tuple[int, ...], queries: int
) -> HeadMeasures:
    """Return measures of which those that are not given are NaN, read-only."""
    unknown = np.full(sizes, math.nan)
    known = {name: means.get(name, unknown) for name in HeadMeasures.__struct_fields__}
    known["queries"] = np.full(sizes, float(queries))
    for array in known.values():
        array.flags.writeable = False
    return HeadMeasures(**known)
