"""What is reached by counting alone: losses that a language model has to beat; no torch.

A pair that was never seen is not impossible: how often a token stands after another is mixed with
how often it stands anywhere, in the proportion with which the training part tells each of its pairs
best from all its others (leaving one out).

Source: MacKay and Peto 1995, "A Hierarchical Dirichlet Language Model", eq. 8 (the mixture).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visualizer.language.corpora.corpus import Corpus

STRENGTHS = tuple(float(2**power) for power in range(-4, 17))
"""How many pairs the frequency of a token alone may count for."""
MOST_CELLS = 10**7
"""Of a table of all pairs; with more, it would be larger than what it counts."""


def frequency_loss(corpus: Corpus) -> float:
    """Give the loss of saying each token as often as it stands in the training part.

    It is that of the validation part, in nats a token. One is added to each count, as a token may
    be new there.
    """
    shares = _shares(corpus)
    return float(-np.log(shares[_after(corpus.validation)]).mean(dtype=np.float64))


def bigram_loss(corpus: Corpus) -> float:
    """Give the loss of saying each token as often as it stands there after the token before.

    It is that of the validation part, in nats a token.
    """
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
    """Say how well each pair is guessed from all others: nats, the more the better."""
    first, then = np.divmod(pairs, len(shares))
    mixed = (counts - 1 + strength * shares[then]) / (before[first] - 1 + strength)
    return float((counts * np.log(mixed)).sum(dtype=np.float64))


def _counted(pairs: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the different pairs, from the smallest on, and how often each comes."""
    if vocabulary**2 > MOST_CELLS:
        return np.unique(pairs, return_counts=True)
    table = np.bincount(pairs)  # which needs no sorting of all of a long text
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
