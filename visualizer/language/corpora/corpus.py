"""What a language model learns from, as numbers, in a part to train on and a part to be tested on.

A text is cut in two, not shuffled: its last tenth is the test. Of a task, every row is a text of
its own, a block and one token long, and the last tenth of the rows is the test.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.corpora.numbering import number
from visualizer.language.corpora.reading import read_text
from visualizer.language.corpora.tasks import ALPHABETS, rows
from visualizer.language.settings import TASKS
from visualizer.language.tokenizers import Tokenizer
from visualizer.language.vocabulary import Vocabulary

if TYPE_CHECKING:
    from visualizer.language.settings import Settings

TESTED = 10
"""One part of so many is for validation."""


class Split(StrEnum):
    """A part of what is learned."""

    TRAINING = "training"
    VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class Corpus:
    """What is learned, as numbers.

    Parameters
    ----------
    training, validation : ndarray of int64
        [token] of a text, [row, block + 1] of a task; read-only.
    text : str
        The same to be read; the rows of a task are its lines.
    notices : tuple of str
        What should be known of it, in sentences.
    """

    vocabulary: Vocabulary
    training: np.ndarray
    validation: np.ndarray
    text: str
    notices: tuple[str, ...] = ()

    def part(self, split: Split) -> np.ndarray:
        """Give the numbers of a part."""
        return self.training if split is Split.TRAINING else self.validation

    def batch(
        self, split: Split, count: int, block: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Draw blocks, each with the token that comes next: int64 [count, block + 1].

        They are random places of a text, or random rows of a task; the same place may come twice.
        What is drawn depends on the generator's state alone.
        """
        part = self.part(split)
        if part.ndim == 2:
            drawn: np.ndarray = part[generator.integers(len(part), size=count), : block + 1]
            return drawn
        starts = generator.integers(len(part) - block, size=count)
        windows: np.ndarray = part[starts[:, None] + np.arange(block + 1)]
        return windows

    @cached_property
    def digest(self) -> str:
        """A name that no other text has: whether the same is learned as before."""
        made = hashlib.blake2b(digest_size=16)
        for start in range(0, len(self.text), 1 << 20):
            made.update(self.text[start : start + (1 << 20)].encode("utf-8", "surrogatepass"))
        return made.hexdigest()


def load(settings: Settings) -> Corpus:
    """Read or make the text that settings name.

    Raises
    ------
    InputError
        When it cannot be learned; its field is ``"path"``, ``"block"`` or ``"size"``.
    """
    return _of_task(settings) if settings.source.kind in TASKS else _of_prose(settings)


def _of_prose(settings: Settings) -> Corpus:
    text = read_text(settings.source.path)
    vocabulary, numbers = number(text, settings.source.tokenizer)
    cut = len(numbers) - len(numbers) // TESTED
    return Corpus(vocabulary, _kept(numbers[:cut]), _kept(numbers[cut:]), text)


def _of_task(settings: Settings) -> Corpus:
    source = settings.source
    count = source.size // (settings.block + 1)
    generator = np.random.Generator(np.random.PCG64(source.seed))
    made = _kept(rows(source.kind, count, settings.block + 1, generator))
    vocabulary = Vocabulary(tuple(ALPHABETS[source.kind]), Tokenizer.CHARACTERS)
    cut = count - count // TESTED
    letters = np.array(vocabulary.tokens)
    text = "\n".join("".join(row) for row in letters[made])
    return Corpus(vocabulary, made[:cut], made[cut:], text)


def _kept(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
