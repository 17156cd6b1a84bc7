"""The rows of synthetic tasks have the correct length and the correct tokens."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.language.corpora import synthetic_tasks
from visualizer.language.corpora.synthetic_tasks import (
    ALPHABETS,
    BRACKET_PAIRS,
    MAX_BRACKET_DEPTH,
    generate_rows,
)
from visualizer.language.training_settings import SYNTHETIC_TASKS, CorpusKind

SEEDS = st.integers(0, 999)
LENGTHS = st.integers(2, 90)


def made(kind: CorpusKind, count: int, length: int, seed: int) -> list[str]:
    numbers = generate_rows(kind, count, length, np.random.Generator(np.random.PCG64(seed)))
    assert numbers.shape == (count, length)
    assert numbers.dtype == np.int64
    return ["".join(ALPHABETS[kind][number] for number in row) for row in numbers]


@pytest.mark.parametrize("kind", SYNTHETIC_TASKS)
def test_alphabets_are_in_order(kind: CorpusKind) -> None:
    assert list(ALPHABETS[kind]) == sorted(set(ALPHABETS[kind]))


@pytest.mark.parametrize("kind", SYNTHETIC_TASKS)
def test_rows_differ_between_batches(kind: CorpusKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_tasks, "VALUES_PER_BATCH", 100)
    found = made(kind, 50, 33, 1)
    assert len(set(found)) == 50


@given(LENGTHS, SEEDS)
def test_a_segment_is_repeated(length: int, seed: int) -> None:
    for row in made(CorpusKind.REPEAT, 5, length, seed):
        size = next((place for place in range(1, length) if row[place] == row[0]), length)
        assert 2 <= size <= max(2, length // 2)
        assert len(set(row[:size])) == size
        assert all(row[place] == row[place - size] for place in range(size, length))


def test_segments_have_every_size() -> None:
    sizes = {len(set(row)) for row in made(CorpusKind.REPEAT, 500, 33, 0)}
    assert sizes == set(range(2, 17))


@given(LENGTHS, SEEDS)
def test_brackets_are_closed_by_their_partners(length: int, seed: int) -> None:
    closes = {pair[1]: pair[0] for pair in BRACKET_PAIRS}
    for row in made(CorpusKind.BRACKETS, 5, length, seed):
        shrunk = row
        deepest = 0
        while any(pair in shrunk for pair in BRACKET_PAIRS):
            shrunk = re.sub("|".join(map(re.escape, BRACKET_PAIRS)), "", shrunk)
            deepest += 1
        # The remaining brackets have been opened but not closed.
        assert not set(shrunk) & closes.keys()
        assert len(shrunk) <= MAX_BRACKET_DEPTH
        assert deepest <= MAX_BRACKET_DEPTH


def test_brackets_use_the_maximum_depth() -> None:
    found = made(CorpusKind.BRACKETS, 200, 33, 0)
    assert any(re.search(r"[(<\[{«“]{4}", row) for row in found)
    assert not any(re.search(r"[(<\[{«“]{5}", row) for row in found)


@given(st.sampled_from([CorpusKind.COPY, CorpusKind.SORTING]), LENGTHS, SEEDS)
def test_answers_are_correct(kind: CorpusKind, length: int, seed: int) -> None:
    for row in made(kind, 5, length, seed):
        *whole, cut = row.split(".")
        for problem in whole:
            given_, answer = problem.split(">")
            assert answer == (given_ if kind is CorpusKind.COPY else "".join(sorted(given_)))
            assert len(set(given_)) == len(given_) >= 2
        given_, _, answer = cut.partition(">")
        right = given_ if kind is CorpusKind.COPY else "".join(sorted(given_))
        assert right.startswith(answer)


@given(LENGTHS, SEEDS)
def test_sums_are_correct(length: int, seed: int) -> None:
    for row in made(CorpusKind.ADDITION, 5, length, seed):
        *whole, cut = row.split(".")
        for problem in whole:
            one, other, total = map(int, re.fullmatch(r"(\d+)\+(\d+)=(\d+)", problem).groups())  # type: ignore[union-attr]
            assert one + other == total
            assert one < 100 > other
        if known := re.fullmatch(r"(\d+)\+(\d+)=(\d*)", cut):
            assert str(int(known[1]) + int(known[2])).startswith(known[3])
