"""The text with which the probe of an opened run starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.lab.runs.run_store import kept_probe
from visualizer.language.tokenizers import Tokenizer, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.language.training_settings import TrainingSettings


LONGEST, MOST_WORDS = 32, 12


def opening_probe(folder: Path, sample: str, settings: TrainingSettings) -> str:
    """Return the first probe of an opened run: the stored one, else from the sample."""
    return kept_probe(folder) or first_probe_of(sample, settings)


def first_probe_of(sample: str, settings: TrainingSettings) -> str:
    """Return the beginning of the training text, short enough to see at a glance."""
    line = next((line for line in sample.splitlines() if line.strip()), "")
    if settings.source.tokenizer is Tokenizer.WORDS:
        words = tokenize(line, Tokenizer.WORDS)
        return " ".join(words[: min(MOST_WORDS, settings.block)])
    return line[: min(LONGEST, settings.block)]
