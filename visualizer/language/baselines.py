"""Unigram and bigram baselines: validation losses of counting alone; imports no torch.

Unseen pairs have a nonzero probability: a bigram's frequency is interpolated with the unigram
frequency, with the strength that maximizes the leave-one-out likelihood of the training part.

Source: MacKay and Peto 1995, "A Hierarchical Dirichlet Language Model", eq. 8 (the mixture).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visualizer.language.corpora.corpus import Corpus

STRENGTHS = tuple(float(2**power) for power in range(-4, 17))
"""Interpolation strengths tried, as numbers of pairs that the unigram frequency counts for."""
MAX_PAIR_TABLE_CELLS = 10**7
"""Most cells of a table of all pairs; a larger one would exceed the text itself."""


def frequency_loss(corpus: Corpus) -> float:
    """Return the validation loss of the training part's unigram frequencies, in nats per token.

    One is added to each count, as the validation part may have new tokens.
    """
    shares = _shares(corpus)
    return float(-np.log(shares[_after(corpus.validation)]).mean(dtype=np.float64))


def bigram_loss(corpus: Corpus) -> float:
    """Return the validation loss of the training part's bigram frequencies, in nats per token."""
    training, validation, shares = corpus.training, corpus.validation, _shares(corpus)
    vocabulary = len(shares)
    before = np.bincount(_before(training), minlength=vocabulary)  # token
    pairs, counts = _counted(_pairs(training, vocabulary), vocabulary)
    strength = max(STRENGTHS, key=lambda tried: _left_out(pairs, counts, before, shares, tried))
    asked = _pairs(validation, vocabulary)
    places = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[places] == asked, counts[places], 0)
    mixed = (seen + strength * shares[_after(validation)]) / (
        before[_before(validation)] + strength
    )
    return float(-np.log(mixed).mean(dtype=np.float64))


def _shares(corpus: Corpus) -> np.ndarray:
    counts = np.bincount(_after(corpus.training), minlength=len(corpus.vocabulary)) + 1.0
    shares: np.ndarray = counts / counts.sum()
    return shares  # token


def _left_out(
    pairs: np.ndarray, counts: np.ndarray, before: np.ndarray, shares: np.ndarray, strength: float
) -> float:
    """Return the leave-one-out log-likelihood of all pairs, in nats."""
    first, then = np.divmod(pairs, len(shares))
    mixed = (counts - 1 + strength * shares[then]) / (before[first] - 1 + strength)
    return float((counts * np.log(mixed)).sum(dtype=np.float64))


def _counted(pairs: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs in ascending order, and their counts."""
    if vocabulary**2 > MAX_PAIR_TABLE_CELLS:
        return np.unique(pairs, return_counts=True)
    table = np.bincount(pairs)  # avoids sorting all pairs of a long text
    found = np.flatnonzero(table)
    return found, table[found]


def _pairs(part: np.ndarray, vocabulary: int) -> np.ndarray:
    pairs: np.ndarray = _before(part) * vocabulary
    pairs += _after(part)
    return pairs


def _before(part: np.ndarray) -> np.ndarray:
    before: np.ndarray = part[..., :-1].ravel()
    return before


def _after(part: np.ndarray) -> np.ndarray:
    after: np.ndarray = part[..., 1:].ravel()
    return after
