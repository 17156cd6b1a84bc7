"""A probe reading: what a language model computes for a text at a step of its training.

Also the probe text with which a run starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from visualizer.lab.runs.run_store import kept_probe
from visualizer.language.tokenizers import Tokenizer, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.language.training_settings import TrainingSettings
    from visualizer.language.wire_format import Message

CLEARLY = 0.25


@dataclass(frozen=True, eq=False)
class ProbeReading:
    """The attention of all layers and heads to a text, and what may come next.

    Parameters
    ----------
    step : int
        After how many steps of training.
    tokens : tuple of str
        Those that were read.
    logits : numpy.ndarray
        [token, vocabulary]: of what comes after each token.
    weights : numpy.ndarray or None
        [layer, head, query, key]; None of a model without attention.
    attending : numpy.ndarray or None
        [layer, head]: the mean weight on what should be read, where that is known.
    cut : int
        Tokens before these that were left out, as the block is full.
    """

    step: int
    tokens: tuple[str, ...]
    logits: np.ndarray
    weights: np.ndarray | None = None
    attending: np.ndarray | None = None
    cut: int = 0

    @classmethod
    def of(cls, message: Message) -> ProbeReading:
        """Take what a training answered to "read"."""
        values, arrays = message.values, message.arrays
        return cls(
            int(values["step"]),
            tuple(values["tokens"]),
            arrays["logits"],
            arrays.get("weights"),
            arrays.get("attending"),
            int(values.get("cut", 0)),
        )

    @property
    def nbytes(self) -> int:
        """The memory that its numbers take."""
        arrays = (self.logits, self.weights, self.attending)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def layers(self) -> int:
        """How many layers have weights."""
        return 0 if self.weights is None else self.weights.shape[0]

    @property
    def heads(self) -> int:
        """How many heads each layer has."""
        return 0 if self.weights is None else self.weights.shape[1]

    @property
    def is_scored(self) -> bool:
        """Whether it is known what should be read."""
        return self.attending is not None and bool(np.isfinite(self.attending).any())

    @cached_property
    def best(self) -> tuple[int, int] | None:
        """The layer and head that read best what should be read, clearly better than by chance.

        None where it is not known, or where none does. By chance, a query reads evenly from all
        tokens up to its own: the mean of 1/1, 1/2, … 1/n of n tokens. Clearly better is `CLEARLY`
        of the way from there to 1, at least; before, the largest of numbers that all are noise
        would be marked.
        """
        if self.attending is None or not self.is_scored:
            return None
        layer, head = np.unravel_index(np.nanargmax(self.attending), self.attending.shape)
        chance = float(np.mean(1 / np.arange(1, len(self.tokens) + 1)))
        is_clear = self.attending[layer, head] >= chance + CLEARLY * (1 - chance)
        return (int(layer), int(head)) if is_clear else None

    def score(self, layer: int, head: int) -> float | None:
        """Give the mean weight of a head on what should be read; None where it is not known."""
        score = np.nan if self.attending is None else float(self.attending[layer, head])
        return None if np.isnan(score) else score


LONGEST, MOST_WORDS = 32, 12


def probe_of(folder: Path, sample: str, settings: TrainingSettings) -> str:
    """Give the text that a run is begun to be watched with: what was read of it last."""
    return kept_probe(folder) or first_probe(sample, settings)


def first_probe(sample: str, settings: TrainingSettings) -> str:
    """Give the beginning of the text that is learned, as long as it can be seen at a glance."""
    line = next((line for line in sample.splitlines() if line.strip()), "")
    if settings.source.tokenizer is Tokenizer.WORDS:
        words = tokenize(line, Tokenizer.WORDS)
        return " ".join(words[: min(MOST_WORDS, settings.block)])
    return line[: min(LONGEST, settings.block)]
