"""What is reached by counting alone: losses that a language model has to beat; no torch.

A pair that was never seen is not impossible: how often a token stands after another is mixed with
how often it stands anywhere, in the proportion with which the training part tells each of its pairs
best from all its others (leaving one out).

Source: MacKay and Peto 1995, "A Hierarchical Dirichlet Language Model", eq. 8 (the mixture).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STRENGTHS = tuple(float(2**power) for power in range(-4, 17))
"""How many pairs the frequency of a token alone may count for."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Losses on the validation part, in nats a token.

    Parameters
    ----------
    frequency : float
        Of saying each token as often as it stands in the training part.
    bigram : float
        Of saying each as often as it stands there after the token before.
    """

    frequency: float
    bigram: float


def baselines(training: np.ndarray, validation: np.ndarray, vocabulary: int) -> Baselines:
    """Count the training part and guess the validation part by it.

    Parameters
    ----------
    training, validation : ndarray of int64
        [token], or [row, token] of rows that do not follow each other.
    vocabulary : int
        How many tokens there are. One is added to the count of each, as some may be new.
    """
    counts = np.bincount(_after(training), minlength=vocabulary) + 1.0
    shares = counts / counts.sum()  # token
    frequency = -np.log(shares[_after(validation)]).mean(dtype=np.float64)
    return Baselines(float(frequency), _bigram(training, validation, shares))


def _bigram(training: np.ndarray, validation: np.ndarray, shares: np.ndarray) -> float:
    vocabulary = len(shares)
    before = np.bincount(_before(training), minlength=vocabulary)  # token
    pairs, counts = np.unique(_pairs(training, vocabulary), return_counts=True)
    strength = max(STRENGTHS, key=lambda tried: _left_out(pairs, counts, before, shares, tried))
    asked = _pairs(validation, vocabulary)
    places = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[places] == asked, counts[places], 0)
    mixed = (seen + strength * shares[_after(validation)]) / (
        before[_before(validation)] + strength
    )
    return float(-np.log(mixed).mean(dtype=np.float64))


def _left_out(
    pairs: np.ndarray, counts: np.ndarray, before: np.ndarray, shares: np.ndarray, strength: float
) -> float:
    """Say how well each pair is guessed from all others: nats, the more the better."""
    first, then = np.divmod(pairs, len(shares))
    mixed = (counts - 1 + strength * shares[then]) / (before[first] - 1 + strength)
    return float((counts * np.log(mixed)).sum(dtype=np.float64))


def _pairs(part: np.ndarray, vocabulary: int) -> np.ndarray:
    return _before(part) * vocabulary + _after(part)


def _before(part: np.ndarray) -> np.ndarray:
    return part[..., :-1].ravel()


def _after(part: np.ndarray) -> np.ndarray:
    return part[..., 1:].ravel()
