"""A token's vector depends on neither its context nor the machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import WORDS, texts, tokens
from visualizer.attention.token_embeddings import (
    BOOK_VECTORS,
    MAX_CACHED_SIZE,
    PADDING_LABEL,
    compute_sinusoidal_positions,
    embed_tokens,
    sample_normal_vector,
    sample_position_vectors,
)

SEEDS = st.integers(0, 2**63 - 1)
SIZES = st.integers(1, 9)


@given(tokens(), texts(), texts(), SIZES, SEEDS)
def test_a_token_has_the_same_vector_in_every_sentence(
    token: str, before: tuple[str, ...], after: tuple[str, ...], d_in: int, seed: int
) -> None:
    sentence = embed_tokens((*before, token, *after), d_in, seed)
    assert (sentence[len(before)] == embed_tokens((token,), d_in, seed)[0]).all()


@given(tokens(), SIZES, SIZES, SEEDS)
def test_a_longer_vector_starts_with_the_shorter_one(
    token: str, size: int, more: int, seed: int
) -> None:
    long, short = (
        sample_normal_vector(token, size + more, seed),
        sample_normal_vector(token, size, seed),
    )
    assert (long[:size] == short).all()


@given(texts(), SIZES, SEEDS)
def test_vectors_are_finite_rows(text: tuple[str, ...], d_in: int, seed: int) -> None:
    vectors = embed_tokens(text, d_in, seed)
    assert vectors.shape == (len(text), d_in)
    assert vectors.dtype == np.float64
    assert np.isfinite(vectors).all()


def test_tokens_differ_from_one_another() -> None:
    vectors = embed_tokens((*WORDS, "\ud800", "\udfff", "", "猫猫", "your"), 5, 0)
    assert len({vector.tobytes() for vector in vectors}) == len(WORDS) + 5


@given(tokens(), SEEDS)
def test_the_seed_matters(token: str, seed: int) -> None:
    other = (seed + 1) % 2**63
    assert (embed_tokens((token,), 4, seed) != embed_tokens((token,), 4, other)).all()


def test_the_books_words_have_the_books_vectors_at_size_3_only() -> None:
    assert embed_tokens(tuple(BOOK_VECTORS), 3, 5).tolist() == [
        list(row) for row in BOOK_VECTORS.values()
    ]
    for d_in in (1, 2, 4):
        rows = embed_tokens(tuple(BOOK_VECTORS), d_in, 5)
        assert not np.isin(rows, np.array(list(BOOK_VECTORS.values()))).any()
    assert embed_tokens(("YOUR",), 3, 5).tolist() != [list(BOOK_VECTORS["Your"])]


def test_padding_is_nothing() -> None:
    assert embed_tokens((PADDING_LABEL,), 4, 1).tolist() == [[0, 0, 0, 0]]


def test_no_text_has_no_vectors() -> None:
    assert embed_tokens((), 4, 1).shape == (0, 4)


def test_vectors_are_standard_normal() -> None:
    numbers = sample_normal_vector("many", 100_000, 3)
    assert abs(numbers.mean()) < 0.02
    assert abs(numbers.std() - 1) < 0.02
    assert abs((np.abs(numbers) < 1).mean() - 0.6827) < 0.01


def test_vectors_are_not_to_be_written() -> None:
    for size in (3, MAX_CACHED_SIZE + 1):
        with pytest.raises(ValueError, match="read-only"):
            sample_normal_vector("token a", size, 1)[0] = 1


def test_only_short_vectors_are_kept() -> None:
    assert sample_normal_vector("token b", MAX_CACHED_SIZE, 1) is sample_normal_vector(
        "token b", MAX_CACHED_SIZE, 1
    )
    long = sample_normal_vector("token b", MAX_CACHED_SIZE + 1, 1)
    assert long is not sample_normal_vector("token b", MAX_CACHED_SIZE + 1, 1)
    assert (long[:-1] == sample_normal_vector("token b", MAX_CACHED_SIZE, 1)).all()


# ---------------------------------------------------------------------------------------- positions


@given(st.integers(1, 9), st.integers(1, 9), SIZES, SEEDS)
def test_a_place_has_the_same_vector_however_long_the_text(
    count: int, more: int, d_in: int, seed: int
) -> None:
    assert (
        sample_position_vectors(count + more, d_in, seed)[:count]
        == sample_position_vectors(count, d_in, seed)
    ).all()
    assert (
        compute_sinusoidal_positions(count + more, d_in)[:count]
        == compute_sinusoidal_positions(count, d_in)
    ).all()


def test_places_differ() -> None:
    for rows in (sample_position_vectors(50, 4, 0), compute_sinusoidal_positions(50, 4)):
        assert len({row.tobytes() for row in rows}) == 50


def test_sinusoids_are_those_of_the_paper() -> None:
    waves = compute_sinusoidal_positions(3, 4)
    expected = [np.sin(2), np.cos(2), np.sin(2 / 100), np.cos(2 / 100)]
    np.testing.assert_allclose(waves[2], expected, rtol=1e-15)
    assert waves[0].tolist() == [0, 1, 0, 1]
    assert compute_sinusoidal_positions(2, 1).tolist() == [[0], [np.sin(1)]]


# ------------------------------------------------------------------------------------------- pinned

# A saved document must show the same numbers on every machine and in every version.
PINNED = {
    ("hello", 0): (-0.8916335770192156, 0.17757818144633258, 0.9960805301092263),
    ("猫", 123): (0.4544780637855752, -0.20136271191276278, -0.9081249375265577),
    ("\ud800", 2**63 - 1): (0.9183198959977218, -0.33592245326479087, -0.23453282388329474),
}


@pytest.mark.parametrize(("token", "seed"), PINNED)
def test_vectors_stay_what_they_were(token: str, seed: int) -> None:
    np.testing.assert_allclose(embed_tokens((token,), 3, seed)[0], PINNED[token, seed], rtol=1e-12)


def test_positions_stay_what_they_were() -> None:
    np.testing.assert_allclose(
        sample_position_vectors(2, 2, 123),
        [(0.1254747937506423, -0.30968262659755574), (-0.9156326912129619, -0.6754795933211206)],
        rtol=1e-12,
    )
