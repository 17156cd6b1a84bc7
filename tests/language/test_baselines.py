"""Baseline losses that are computed from counts equal those that are computed pair by pair."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.language.corpora.corpus import Corpus
from visualizer.language.tokenizers import Vocabulary
from visualizer.language.training_run import INTERPOLATION_STRENGTHS, bigram_loss, unigram_loss


def corpus(training: np.ndarray, validation: np.ndarray, vocabulary: int) -> Corpus:
    tokens = tuple(chr(ord("a") + number) for number in range(vocabulary))
    return Corpus(Vocabulary(tokens), training, validation, "")


def rows_of(part: np.ndarray) -> list[list[int]]:
    return part.tolist() if part.ndim == 2 else [part.tolist()]


def pairs_of(part: np.ndarray) -> list[tuple[int, int]]:
    return [pair for row in rows_of(part) for pair in pairwise(row)]


def by_hand(training: np.ndarray, validation: np.ndarray, vocabulary: int) -> tuple[float, float]:
    """Return the unigram and bigram losses, computed token by token.

    Each strength is tried on the training part, where every pair is predicted without itself: its
    count and the count of its first token are reduced by 1.
    """
    pairs = Counter(pairs_of(training))
    firsts = Counter(first for first, _ in pairs_of(training))
    seconds = Counter(second for _, second in pairs_of(training))
    total = seconds.total() + vocabulary

    def share(token: int) -> float:
        return (seconds[token] + 1) / total

    def left_out(strength: float) -> float:
        return sum(
            math.log((pairs[one, two] - 1 + strength * share(two)) / (firsts[one] - 1 + strength))
            for one, two in pairs_of(training)
        )

    scores = {strength: left_out(strength) for strength in INTERPOLATION_STRENGTHS}
    strength = next(
        one for one in INTERPOLATION_STRENGTHS if scores[one] >= max(scores.values()) - 1e-9
    )
    asked = pairs_of(validation)
    frequency = -sum(math.log(share(two)) for _, two in asked) / len(asked)
    bigram = -sum(
        math.log((pairs[one, two] + strength * share(two)) / (firsts[one] + strength))
        for one, two in asked
    )
    return frequency, bigram / len(asked)


@given(st.integers(2, 40), st.integers(0, 999), st.booleans(), st.floats(0.3, 4))
def test_the_baselines_agree_with_counting_pair_by_pair(
    vocabulary: int, seed: int, is_task: bool, skew: float
) -> None:
    drawn = np.random.Generator(np.random.PCG64(seed)).random(400) ** skew
    tokens = (drawn * vocabulary).astype(np.int64)
    rows = tokens.reshape(-1, 10) if is_task else tokens
    cut = len(rows) * 9 // 10
    found = corpus(rows[:cut], rows[cut:], vocabulary)
    frequency, bigram = by_hand(rows[:cut], rows[cut:], vocabulary)
    assert unigram_loss(found) == pytest.approx(frequency)
    assert bigram_loss(found) == pytest.approx(bigram)


def test_many_tokens_are_counted_in_the_same_way_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.Generator(np.random.PCG64(5)).integers(30, size=(90, 10))
    few = bigram_loss(corpus(drawn[:80], drawn[80:], 30))
    monkeypatch.setattr("visualizer.language.training_run.MAX_PAIR_TABLE_CELLS", 0)
    assert bigram_loss(corpus(drawn[:80], drawn[80:], 30)) == few


def test_pairs_that_always_occur_are_predicted() -> None:
    text = np.tile(np.arange(5), 200)
    found = corpus(text[:900], text[900:], 5)
    assert unigram_loss(found) == pytest.approx(math.log(5), abs=1e-4)
    assert bigram_loss(found) < 0.01


def test_unseen_tokens_are_possible() -> None:
    found = corpus(np.array([0, 1] * 50), np.array([2, 2, 3]), 4)
    assert unigram_loss(found) > 4
    assert math.isfinite(bigram_loss(found))
    assert bigram_loss(found) > 4


def test_random_tokens_cannot_be_predicted() -> None:
    drawn = np.random.Generator(np.random.PCG64(3)).integers(26, size=50_000)
    found = corpus(drawn[:45_000], drawn[45_000:], 26)
    assert unigram_loss(found) == pytest.approx(math.log(26), abs=0.01)
    assert bigram_loss(found) == pytest.approx(math.log(26), abs=0.02)
