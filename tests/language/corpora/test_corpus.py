"""What is learned, cut into two parts and drawn from in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from visualizer.language.corpora.corpus import Split, load
from visualizer.language.settings import Kind, Settings, Source

if TYPE_CHECKING:
    from pathlib import Path


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def from_file(path: Path, text: str, block: int = 8) -> Settings:
    path.write_text(text, encoding="utf-8", newline="")
    return Settings(source=Source(Kind.FILE, str(path)), block=block)


def test_the_last_tenth_of_a_text_is_for_validation(tmp_path: Path) -> None:
    text = "".join(chr(97 + place * place % 23) for place in range(1_000))
    corpus = load(from_file(tmp_path / "a.txt", text))
    assert corpus.text == text
    assert corpus.vocabulary.write(corpus.vocabulary.decode(corpus.training)) == text[:900]
    assert corpus.vocabulary.write(corpus.vocabulary.decode(corpus.validation)) == text[900:]


@pytest.mark.parametrize("split", Split)
def test_a_batch_of_a_text_is_places_of_its_part(tmp_path: Path, split: Split) -> None:
    text = "".join(chr(97 + place * place % 23) for place in range(1_000))
    corpus = load(from_file(tmp_path / "a.txt", text))
    part = text[:900] if split is Split.TRAINING else text[900:]
    batch = corpus.batch(split, 500, 8, generator())
    assert batch.shape == (500, 9)
    assert batch.dtype == np.int64
    written = {corpus.vocabulary.write(corpus.vocabulary.decode(row)) for row in batch}
    assert written <= {part[start : start + 9] for start in range(len(part) - 8)}
    assert any(row == part[-9:] for row in written) or split is Split.TRAINING


def test_the_same_state_draws_the_same_batches() -> None:
    corpus, again = load(Settings()), load(Settings())
    first, second = generator(), generator()
    for _ in range(3):
        batch = corpus.batch(Split.TRAINING, 4, 32, first)
        np.testing.assert_array_equal(batch, again.batch(Split.TRAINING, 4, 32, second))
    later = generator(0)
    later.bit_generator.state = first.bit_generator.state
    np.testing.assert_array_equal(
        corpus.batch(Split.VALIDATION, 4, 32, first), again.batch(Split.VALIDATION, 4, 32, later)
    )


def test_a_batch_of_a_task_is_rows_of_its_part() -> None:
    corpus = load(Settings(source=Source(Kind.REPEAT, size=5_000), block=16))
    batch = corpus.batch(Split.VALIDATION, 50, 16, generator())
    assert batch.shape == (50, 17)
    assert {row.tobytes() for row in batch} <= {row.tobytes() for row in corpus.validation}
