"""The text that a model reads while it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language.tokenizers import Tokenizer, tokenize
from visualizer.state.lab.shelf import kept_probe

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.language.settings import Settings

LONGEST, MOST_WORDS = 32, 12


def probe_of(folder: Path, sample: str, settings: Settings) -> str:
    """Give the text that a run is begun to be watched with: what was read of it last."""
    return kept_probe(folder) or first_probe(sample, settings)


def first_probe(sample: str, settings: Settings) -> str:
    """Give the beginning of the text that is learned, as long as it can be seen at a glance."""
    line = next((line for line in sample.splitlines() if line.strip()), "")
    if settings.source.tokenizer is Tokenizer.WORDS:
        words = tokenize(line, Tokenizer.WORDS)
        return " ".join(words[: min(MOST_WORDS, settings.block)])
    return line[: min(LONGEST, settings.block)]
