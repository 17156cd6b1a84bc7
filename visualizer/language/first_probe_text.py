"""The default probe text of a trained model: the beginning of its training text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language.tokenizers import TokenizerKind, tokenize

if TYPE_CHECKING:
    from visualizer.language.training_settings import TrainingSettings

MAX_CHARACTERS, MAX_WORDS = 32, 12


def choose_probe_text(sample: str, settings: TrainingSettings) -> str:
    """Return the beginning of the training text, shortened so that it can be read at a glance."""
    line = next((line for line in sample.splitlines() if line.strip()), "")
    if settings.source.effective_tokenizer is TokenizerKind.WORDS:
        words = tokenize(line, TokenizerKind.WORDS)
        return " ".join(words[: min(MAX_WORDS, settings.block)])
    return "".join(tokenize(line, TokenizerKind.CHARACTERS)[: min(MAX_CHARACTERS, settings.block)])
