"""Corpora: token ids, split into a training and a validation part.

A text is not shuffled; its last tenth is used for validation. Each row of a task is a separate text
that is one token longer than a block; the last tenth of the rows is used for validation.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.errors import InputError
from visualizer.language.corpora.corpus_encoding import encode_text
from visualizer.language.corpora.story_world import CHARACTERS_PER_TOKEN, generate_stories
from visualizer.language.corpora.synthetic_tasks import ALPHABETS, generate_rows
from visualizer.language.corpora.text_file import read_text
from visualizer.language.tokenizers import (
    TokenizerKind,
    Vocabulary,
    format_token_list,
    visible_token,
)
from visualizer.language.training_settings import SYNTHETIC_TASKS, CorpusKind

if TYPE_CHECKING:
    from visualizer.language.training_settings import CorpusSource, TrainingSettings

VALIDATION_DIVISOR = 10
"""Reciprocal of the fraction of a text that is used for validation."""


class CorpusSplit(StrEnum):
    """A part of a corpus."""

    TRAINING = "training"
    VALIDATION = "validation"


class Corpus(Struct, frozen=True, eq=False, dict=True):
    """A text, converted to token ids.

    Parameters
    ----------
    training, validation : ndarray of int64
        Token ids, read-only: [token] for a text, [row, block + 1] for a task.
    text : str
        The text; the rows of a task are its lines.
    notices : tuple of str
        Notices about the text, each a complete sentence.
    """

    vocabulary: Vocabulary
    training: np.ndarray
    validation: np.ndarray
    text: str
    notices: tuple[str, ...] = ()

    def sample_batch(
        self, split: CorpusSplit, count: int, block: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Sample blocks together with the tokens that follow them, int64 [count, block + 1].

        Blocks start at random positions of a text, or are rows of a task that are drawn with
        replacement.
        The result depends only on the generator's state.
        """
        part = self.training if split is CorpusSplit.TRAINING else self.validation
        blocks: np.ndarray
        if part.ndim == 2:
            blocks = part[generator.integers(len(part), size=count), : block + 1]
        else:
            starts = generator.integers(len(part) - block, size=count)
            blocks = part[starts[:, None] + np.arange(block + 1)]
        return blocks

    @cached_property
    def digest(self) -> str:
        """Hash of the text, which is used to detect changes."""
        hasher = hashlib.blake2b(digest_size=16)
        for start in range(0, len(self.text), 1 << 20):
            hasher.update(self.text[start : start + (1 << 20)].encode("utf-8", "surrogatepass"))
        return hasher.hexdigest()


def load_corpus(settings: TrainingSettings) -> Corpus:
    """Read or generate the text for the given settings; equal settings give equal texts.

    Raises
    ------
    InputError
        With field ``path``, ``block`` or ``size`` if the text cannot be used.
    """
    is_task = settings.source.kind in SYNTHETIC_TASKS
    return _load_task_corpus(settings) if is_task else _load_text_corpus(settings)


def _load_text_corpus(settings: TrainingSettings) -> Corpus:
    source = settings.source
    is_file = source.kind is CorpusKind.FILE
    text = read_text(source.path) if is_file else _generate_story_text(source)
    vocabulary, numbers = encode_text(text, source.tokenizer)
    if len(vocabulary) < 2:
        raise InputError("path", _nothing_to_learn_message(vocabulary))
    cut = len(numbers) - len(numbers) // VALIDATION_DIVISOR
    training, validation = _make_read_only(numbers)[:cut], numbers[cut:]
    _check_validation_length(len(validation), settings)
    notices = _new_token_notices(vocabulary, training, validation)
    return Corpus(vocabulary, training, validation, text, notices)


def _generate_story_text(source: CorpusSource) -> str:
    is_words = source.tokenizer is TokenizerKind.WORDS
    return generate_stories(source.size * (CHARACTERS_PER_TOKEN if is_words else 1), source.seed)


def _load_task_corpus(settings: TrainingSettings) -> Corpus:
    source = settings.source
    count = source.size // (settings.block + 1)
    if count < VALIDATION_DIVISOR:
        least = VALIDATION_DIVISOR * (settings.block + 1)
        sentence = f"{source.size:,} tokens are not enough for rows of {settings.block + 1:,}"
        raise InputError("size", f"{sentence}. Use {least:,} or more.", ("size", least))
    generator = np.random.Generator(np.random.PCG64(source.seed))
    task_rows = _make_read_only(generate_rows(source.kind, count, settings.block + 1, generator))
    vocabulary = Vocabulary(tuple(ALPHABETS[source.kind]), TokenizerKind.CHARACTERS)
    cut = count - count // VALIDATION_DIVISOR
    notices = _repeated_row_notices(task_rows[:cut], task_rows[cut:])
    text = _decode_rows(vocabulary, task_rows)
    return Corpus(vocabulary, task_rows[:cut], task_rows[cut:], text, notices)


def _nothing_to_learn_message(vocabulary: Vocabulary) -> str:
    if not len(vocabulary):
        return "The text contains no words. Choose another text."
    only = visible_token(vocabulary.tokens[0])
    return f"The text only repeats “{only}”, so there is nothing to learn. Choose another text."


def _check_validation_length(length: int, settings: TrainingSettings) -> None:
    """Reject a text if its validation part is too short for a block."""
    least, block = settings.block + 2, length - 2
    if length >= least:
        return
    smaller_block = f"a block size of {block:,}, or " if block > 0 else ""
    sentence = (
        f"The validation part (the last tenth of the text) has {length:,} tokens, but a block size "
        f"of {settings.block:,} needs {least:,}. Use {smaller_block}a text of "
        f"{VALIDATION_DIVISOR * least:,} tokens or more."
    )
    raise InputError("block", sentence, ("block", block) if block > 0 else None)


def _new_token_notices(
    vocabulary: Vocabulary, training: np.ndarray, validation: np.ndarray
) -> tuple[str, ...]:
    new = np.bincount(validation, minlength=len(vocabulary)) > 0
    new &= np.bincount(training, minlength=len(vocabulary)) == 0
    tokens = vocabulary.ids_to_tokens(np.flatnonzero(new).tolist())
    if not tokens:
        return ()
    verb, them = ("occurs", "it") if len(tokens) == 1 else ("occur", "them")
    where = f"{verb} only in the last tenth of the text, which is used for validation"
    return (f"{format_token_list(tokens)} {where}, so the model cannot learn {them}.",)


def _repeated_row_notices(training: np.ndarray, validation: np.ndarray) -> tuple[str, ...]:
    seen = {row.tobytes() for row in training}
    known = sum(row.tobytes() in seen for row in validation)
    if not known:
        return ()
    share = f"{known:,} of the {len(validation):,} validation rows"
    return (f"{share} also occur in the training rows, so the model may memorize them.",)


def _decode_rows(vocabulary: Vocabulary, task_rows: np.ndarray) -> str:
    """Convert rows of token ids to lines of text."""
    codes = np.array([ord(token) for token in vocabulary.tokens], "<u4")[task_rows]
    ended = np.pad(codes, ((0, 0), (0, 1)), constant_values=ord("\n"))
    return ended.tobytes().decode("utf-32-le").removesuffix("\n")


def _make_read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
