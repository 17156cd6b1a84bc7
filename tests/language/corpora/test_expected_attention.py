"""Expected attention: the key that determines the next token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.language.corpora.synthetic_tasks import (
    ALPHABETS,
    BRACKET_PAIRS,
    MISSING_PARTNER,
    find_partner_keys,
    generate_rows,
    mean_partner_weight,
)
from visualizer.language.training_settings import SYNTHETIC_TASKS, CorpusKind

N = MISSING_PARTNER
BY_HAND = [
    (CorpusKind.REPEAT, "abcabca", [N, N, N, 1, 2, 3, N]),
    (CorpusKind.REPEAT, "abab", [N, N, 1, 2]),
    (CorpusKind.REPEAT, "aab", [N, 1, N]),
    (CorpusKind.COPY, "qh>qh.wa>w", [N, N, 0, 1, N, N, N, N, 6, 7]),
    (CorpusKind.SORTING, "hdq>dhq.", [N, N, N, 1, 0, 2, N, N]),
    (CorpusKind.BRACKETS, "([]){", [0, 1, 0, N, 4]),
    (CorpusKind.BRACKETS, "(]", [0, 0]),
    (CorpusKind.BRACKETS, ")", [N]),
    (CorpusKind.ADDITION, "27+58=85.", [N, N, N, N, N, 0, 1, N, N]),
    (CorpusKind.ADDITION, "7+95=102.1+1=", [N, N, N, N, N, N, 0, N, N, N, N, N, 9]),
    (CorpusKind.ADDITION, "1=2.+=", [N] * 6),
    (CorpusKind.WORLD, "Ada is", [N] * 6),
]


@pytest.mark.parametrize(("kind", "text", "found"), BY_HAND)
def test_partners_of_known_rows(kind: CorpusKind, text: str, found: list[int]) -> None:
    assert find_partner_keys(kind, list(text)).tolist() == found
    assert find_partner_keys(kind, list(text)).dtype == np.int64


def drawn(kind: CorpusKind, length: int, seed: int) -> str:
    (row,) = generate_rows(kind, 1, length, np.random.Generator(np.random.PCG64(seed)))
    return "".join(ALPHABETS[kind][number] for number in row)


@given(
    st.sampled_from([CorpusKind.REPEAT, CorpusKind.COPY, CorpusKind.SORTING]),
    st.integers(2, 80),
    st.integers(0, 999),
)
def test_a_partner_is_the_next_token(kind: CorpusKind, length: int, seed: int) -> None:
    row = drawn(kind, length, seed)
    found = find_partner_keys(kind, row)
    for query in range(length - 1):
        if found[query] != MISSING_PARTNER:
            assert row[found[query]] == row[query + 1]


@given(st.integers(2, 80), st.integers(0, 999))
def test_a_bracket_that_closes_next_closes_its_partner(length: int, seed: int) -> None:
    row = drawn(CorpusKind.BRACKETS, length, seed)
    found = find_partner_keys(CorpusKind.BRACKETS, row)
    for query in range(length - 1):
        after = row[query + 1]
        if any(after == pair[1] for pair in BRACKET_PAIRS):
            assert row[found[query]] + after in BRACKET_PAIRS
            between = row[found[query] + 1 : query + 1]
            for pair in BRACKET_PAIRS:
                assert between.count(pair[0]) == between.count(pair[1])


@given(st.integers(6, 80), st.integers(0, 999))
def test_the_partner_of_a_sum_digit_has_the_same_place_value(length: int, seed: int) -> None:
    row = drawn(CorpusKind.ADDITION, length, seed)
    found = find_partner_keys(CorpusKind.ADDITION, row)
    start = 0
    for problem in row.split("."):
        one, _, rest = problem.partition("+")
        other, equals, total = rest.partition("=")
        if equals:
            size = len(str(int(one) + int(other)))
            for place, _digit in enumerate(total):
                key = found[start + len(one) + len(other) + 1 + place]
                from_the_end = size - place
                expected = (
                    start + len(one) - from_the_end if from_the_end <= len(one) else MISSING_PARTNER
                )
                assert key == expected
        start += len(problem) + 1


@given(st.sampled_from([*CorpusKind]), st.data())
def test_any_text_has_partners_or_none(kind: CorpusKind, data: st.DataObject) -> None:
    letters = ALPHABETS.get(kind, "ab c") + "x"
    tokens = data.draw(st.lists(st.sampled_from(letters) | st.text(max_size=2), max_size=30))
    found = find_partner_keys(kind, tokens)
    assert found.shape == (len(tokens),)
    assert ((found >= MISSING_PARTNER) & (found <= np.arange(len(tokens)))).all()


@pytest.mark.parametrize("kind", SYNTHETIC_TASKS)
def test_every_task_has_partners(kind: CorpusKind) -> None:
    assert (find_partner_keys(kind, drawn(kind, 33, 0)) != MISSING_PARTNER).sum() > 5


def test_the_score_is_the_mean_weight_on_the_partners() -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    weights = generator.dirichlet(np.ones(4), size=(2, 3, 4)).astype(np.float32)
    found = mean_partner_weight(weights, np.array([MISSING_PARTNER, 0, MISSING_PARTNER, 2]))
    assert found.shape == (2, 3)
    expected = (weights[1, 2, 1, 0] + weights[1, 2, 3, 2]) / 2
    assert found[1, 2] == pytest.approx(expected)
    perfect = np.zeros((1, 1, 4, 4))
    perfect[0, 0, [1, 3], [0, 2]] = 1
    assert mean_partner_weight(perfect, np.array([MISSING_PARTNER, 0, MISSING_PARTNER, 2])) == 1


def test_without_partners_the_score_is_nan() -> None:
    assert np.isnan(mean_partner_weight(np.ones((1, 2, 3, 3)), np.full(3, MISSING_PARTNER))).all()
