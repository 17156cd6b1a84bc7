"""Unigram and bigram baselines: validation losses of token counts. Imports no torch.

Unseen pairs have a nonzero probability: a bigram's frequency is interpolated with the unigram
frequency, with the strength that maximizes the leave-one-out likelihood of the training part.

Source: MacKay and Peto 1995, "A Hierarchical Dirichlet Language Model", eq. 8 (the mixture).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visualizer.language.corpora.corpus import Corpus

INTERPOLATION_STRENGTHS = tuple(float(2**power) for power in range(-4, 17))
"""Interpolation strengths to try: the number of pairs that the unigram frequency counts for."""
MAX_PAIR_TABLE_CELLS = 10**7
"""Maximum number of cells of a table of all pairs; a larger table would exceed the text itself."""


def unigram_loss(corpus: Corpus) -> float:
    """Return the validation loss of the training part's unigram frequencies, in nats per token.

    One is added to each count, because the validation part may have new tokens.
    """
    shares = _unigram_frequencies(corpus)
    return float(-np.log(shares[_next_tokens(corpus.validation)]).mean(dtype=np.float64))


def bigram_loss(corpus: Corpus) -> float:
    """Return the validation loss of the training part's bigram frequencies, in nats per token."""
    training, validation, shares = corpus.training, corpus.validation, _unigram_frequencies(corpus)
    vocabulary = len(shares)
    before = np.bincount(_first_tokens(training), minlength=vocabulary)  # token
    pairs, counts = _count_pairs(_pair_codes(training, vocabulary), vocabulary)
    strength = max(
        INTERPOLATION_STRENGTHS,
        key=lambda tried: _leave_one_out_likelihood(pairs, counts, before, shares, tried),
    )
    validation_pairs = _pair_codes(validation, vocabulary)
    places = np.minimum(np.searchsorted(pairs, validation_pairs), len(pairs) - 1)
    seen = np.where(pairs[places] == validation_pairs, counts[places], 0)
    mixed = (seen + strength * shares[_next_tokens(validation)]) / (
        before[_first_tokens(validation)] + strength
    )
    return float(-np.log(mixed).mean(dtype=np.float64))


def _unigram_frequencies(corpus: Corpus) -> np.ndarray:
    counts = np.bincount(_next_tokens(corpus.training), minlength=len(corpus.vocabulary)) + 1.0
    shares: np.ndarray = counts / counts.sum()
    return shares  # token


def _leave_one_out_likelihood(
    pairs: np.ndarray, counts: np.ndarray, before: np.ndarray, shares: np.ndarray, strength: float
) -> float:
    """Return the leave-one-out log-likelihood of all pairs, in nats."""
    first, then = np.divmod(pairs, len(shares))
    mixed = (counts - 1 + strength * shares[then]) / (before[first] - 1 + strength)
    return float((counts * np.log(mixed)).sum(dtype=np.float64))


def _count_pairs(pairs: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs in ascending order, and their counts."""
    if vocabulary**2 > MAX_PAIR_TABLE_CELLS:
        return np.unique(pairs, return_counts=True)
    table = np.bincount(pairs)  # avoids sorting all pairs of a long text
    distinct = np.flatnonzero(table)
    return distinct, table[distinct]


def _pair_codes(part: np.ndarray, vocabulary: int) -> np.ndarray:
    pairs: np.ndarray = _first_tokens(part) * vocabulary
    pairs += _next_tokens(part)
    return pairs


def _first_tokens(part: np.ndarray) -> np.ndarray:
    before: np.ndarray = part[..., :-1].ravel()
    return before


def _next_tokens(part: np.ndarray) -> np.ndarray:
    after: np.ndarray = part[..., 1:].ravel()
    return after
