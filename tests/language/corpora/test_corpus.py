"""A corpus is split into two parts and sampled in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.language.corpora.corpus import CorpusSplit, load_corpus
from visualizer.language.corpora.synthetic_tasks import ALPHABETS
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import (
    SYNTHETIC_TASKS,
    CorpusKind,
    CorpusSource,
    TrainingSettings,
    check_settings,
)

if TYPE_CHECKING:
    from pathlib import Path


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def from_file(path: Path, text: str, block: int = 8) -> TrainingSettings:
    path.write_text(text, encoding="utf-8", newline="")
    return TrainingSettings(source=CorpusSource(CorpusKind.FILE, str(path)), block=block)


def test_the_last_tenth_of_a_text_is_for_validation(tmp_path: Path) -> None:
    text = "".join(chr(97 + place * place % 23) for place in range(1_000))
    corpus = load_corpus(from_file(tmp_path / "a.txt", text))
    assert corpus.text == text
    assert (
        corpus.vocabulary.join_tokens(corpus.vocabulary.ids_to_tokens(corpus.training))
        == text[:900]
    )
    assert (
        corpus.vocabulary.join_tokens(corpus.vocabulary.ids_to_tokens(corpus.validation))
        == text[900:]
    )


@pytest.mark.parametrize("split", CorpusSplit)
def test_a_batch_of_a_text_consists_of_blocks_of_its_part(
    tmp_path: Path, split: CorpusSplit
) -> None:
    text = "".join(chr(97 + place * place % 23) for place in range(1_000))
    corpus = load_corpus(from_file(tmp_path / "a.txt", text))
    part = text[:900] if split is CorpusSplit.TRAINING else text[900:]
    batch = corpus.sample_batch(split, 500, 8, generator())
    assert batch.shape == (500, 9)
    assert batch.dtype == np.int64
    written = {corpus.vocabulary.join_tokens(corpus.vocabulary.ids_to_tokens(row)) for row in batch}
    assert written <= {part[start : start + 9] for start in range(len(part) - 8)}
    assert any(row == part[-9:] for row in written) or split is CorpusSplit.TRAINING


def test_the_same_state_draws_the_same_batches() -> None:
    corpus, again = load_corpus(TrainingSettings()), load_corpus(TrainingSettings())
    first, second = generator(), generator()
    for _ in range(3):
        batch = corpus.sample_batch(CorpusSplit.TRAINING, 4, 32, first)
        np.testing.assert_array_equal(
            batch, again.sample_batch(CorpusSplit.TRAINING, 4, 32, second)
        )
    later = generator(0)
    later.bit_generator.state = first.bit_generator.state
    np.testing.assert_array_equal(
        corpus.sample_batch(CorpusSplit.VALIDATION, 4, 32, first),
        again.sample_batch(CorpusSplit.VALIDATION, 4, 32, later),
    )


def test_a_batch_of_a_task_consists_of_rows_of_its_part() -> None:
    corpus = load_corpus(
        TrainingSettings(source=CorpusSource(CorpusKind.REPEAT, size=5_000), block=16)
    )
    batch = corpus.sample_batch(CorpusSplit.VALIDATION, 50, 16, generator())
    assert batch.shape == (50, 17)
    assert {row.tobytes() for row in batch} <= {row.tobytes() for row in corpus.validation}


@pytest.mark.parametrize("kind", SYNTHETIC_TASKS)
def test_the_text_of_a_task_consists_of_its_rows(kind: CorpusKind) -> None:
    corpus = load_corpus(TrainingSettings(source=CorpusSource(kind, size=3_400), block=33))
    lines = corpus.text.split("\n")
    assert len(lines) == len(corpus.training) + len(corpus.validation) == 100
    assert corpus.vocabulary.tokens == tuple(ALPHABETS[kind])
    rows = np.concatenate([corpus.training, corpus.validation])
    assert [
        corpus.vocabulary.tokenize_and_encode(line)[1].tolist() for line in lines
    ] == rows.tolist()


@pytest.mark.parametrize("tokenizer", TokenizerKind)
def test_a_world_has_about_the_requested_number_of_tokens(tokenizer: TokenizerKind) -> None:
    corpus = load_corpus(
        TrainingSettings(source=CorpusSource(CorpusKind.WORLD, size=50_000, tokenizer=tokenizer))
    )
    size = len(corpus.training) + len(corpus.validation)
    assert 49_000 < size < 53_000
    assert len(corpus.validation) == size // 10


@pytest.mark.parametrize("kind", [*SYNTHETIC_TASKS, CorpusKind.WORLD])
def test_another_seed_gives_another_text(kind: CorpusKind) -> None:
    first, again, other = (
        load_corpus(TrainingSettings(source=CorpusSource(kind, size=5_000, seed=seed)))
        for seed in (1, 1, 2)
    )
    assert first.text == again.text != other.text
    assert first.digest == again.digest != other.digest


def test_the_corpus_is_read_only() -> None:
    corpus = load_corpus(TrainingSettings(source=CorpusSource(size=1_000)))
    for part in (corpus.training, corpus.validation):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


def refused(settings: TrainingSettings) -> InputError:
    with pytest.raises(InputError) as found:
        load_corpus(settings)
    return found.value


def test_a_text_too_short_for_a_block_is_rejected_with_what_fits(tmp_path: Path) -> None:
    settings = from_file(tmp_path / "a.txt", "abcdefghij" * 9, 8)
    said = refused(settings)
    assert said.field == "block"
    assert said.sentence == (
        "The validation part (the last tenth of the text) has 9 tokens, but a block size of 8 needs"
        " 10. Use a block size of 7, or a text of 100 tokens or more."
    )
    assert said.remedy == ("block", 7)
    assert (
        load_corpus(replace(settings, block=7))
        .sample_batch(CorpusSplit.VALIDATION, 3, 7, generator())
        .shape
    )


def test_a_text_that_is_too_short_for_any_block_has_no_remedy(tmp_path: Path) -> None:
    said = refused(from_file(tmp_path / "a.txt", "abcdefghij", 8))
    assert said.remedy is None
    assert said.sentence.endswith("needs 10. Use a text of 100 tokens or more.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a" * 999,
            "The text only repeats “a”, so there is nothing to learn. Choose another text.",
        ),
        (
            " " * 999,
            "The text only repeats “␣”, so there is nothing to learn. Choose another text.",
        ),
    ],
)
def test_one_repeated_character_is_rejected(tmp_path: Path, text: str, sentence: str) -> None:
    said = refused(from_file(tmp_path / "a.txt", text))
    assert (said.field, said.sentence) == ("path", sentence)


def test_a_text_without_words_is_rejected(tmp_path: Path) -> None:
    settings = from_file(tmp_path / "a.txt", " \n" * 999)
    settings = replace(settings, source=replace(settings.source, tokenizer=TokenizerKind.WORDS))
    said = refused(settings)
    sentence = "The text contains no words. Choose another text."
    assert (said.field, said.sentence) == ("path", sentence)


def test_tokens_only_in_the_validation_part_are_reported(tmp_path: Path) -> None:
    text = "ab" * 450
    where = (
        "only in the last tenth of the text, which is used for validation, so the model "
        "cannot learn"
    )
    (notice,) = load_corpus(from_file(tmp_path / "a.txt", text + "ax" * 50)).notices
    assert notice == f"“x” occurs {where} it."
    (notice,) = load_corpus(from_file(tmp_path / "a.txt", text + "stuvwxyz" * 12)).notices
    assert notice == f"“s”, “t”, “u”, “v”, “w” and 3 more occur {where} them."
    assert load_corpus(from_file(tmp_path / "a.txt", text + "ba" * 50)).notices == ()


def test_rows_in_both_parts_are_reported() -> None:
    (notice,) = load_corpus(TrainingSettings(source=CorpusSource(size=2_000), block=1)).notices
    corpus = load_corpus(TrainingSettings(source=CorpusSource(size=2_000), block=1))
    training = {tuple(row) for row in corpus.training.tolist()}
    known = sum(tuple(row) in training for row in corpus.validation.tolist())
    assert 0 < known < 100
    assert notice.startswith(f"{known} of the 100 validation rows also occur in the training")
    assert (
        load_corpus(TrainingSettings(source=CorpusSource(CorpusKind.COPY), block=32)).notices == ()
    )


def test_a_task_with_too_few_rows_is_rejected() -> None:
    settings = TrainingSettings(source=CorpusSource(size=1_000), block=512)
    said = refused(settings)
    assert said.field == "size"
    assert said.sentence == ("1,000 tokens are not enough for rows of 513. Use 5,130 or more.")
    assert said.remedy
    mended = replace(settings, source=CorpusSource(size=5_130))
    check_settings(mended)
    assert load_corpus(mended).validation.shape == (1, 513)


def test_a_text_that_was_changed_has_another_digest(tmp_path: Path) -> None:
    digest = load_corpus(from_file(tmp_path / "a.txt", "abc" * 500)).digest
    assert load_corpus(from_file(tmp_path / "b.txt", "abc" * 500)).digest == digest
    assert load_corpus(from_file(tmp_path / "a.txt", "abc" * 499 + "abd")).digest != digest
