"""Training speed of a run, compared with a plain PyTorch loop for the same model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tests.benchmarks import children
from tests.benchmarks.table import ratio, show
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
    TrainingSettings,
)

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 40
"""Number of consecutive steps of each of the two."""
MIN_TURNS = 15
"""Minimum number of turns; in the first hundred steps, a run evaluates and saves more often."""
MIN_RATIO = 0.95

_TEXT = CorpusSource(CorpusKind.WORLD, size=400_000, tokenizer=TokenizerKind.CHARACTERS)
SETTINGS = {
    "transformer, block 8": TrainingSettings(
        _TEXT, ModelKind.TRANSFORMER, block=8, heads=4, layers=3, batch=128, steps=10**6
    ),
    "attention only, block 32": TrainingSettings(CorpusSource(CorpusKind.REPEAT), steps=10**6),
    "transformer, block 64": TrainingSettings(
        _TEXT, ModelKind.TRANSFORMER, block=64, heads=4, layers=3, batch=32, steps=10**6
    ),
}


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    lines = []
    for words in SETTINGS:
        told = children.run(_side_by_side, words, max(MIN_TURNS, repeats))
        lines += [
            ratio(f"{words}: plain loop ÷ run, time of a step", told["plain"], told["run"],
                  at_least=MIN_RATIO),
        ]  # fmt: skip
    return show("A run with its losses, snapshots and checkpoints beside a plain loop", lines)


def _side_by_side(words: str, repeats: int) -> dict[str, Any]:
    """Train both alternately with the same number of threads."""
    import torch

    from tests.benchmarks.plain_loop import PlainLoop
    from visualizer.language.opened_run import OpenedRun
    from visualizer.language.run_folder import RunFolder

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        settings = replace(SETTINGS[words], threads=1)
        opened = OpenedRun(RunFolder(Path(place) / "run"), settings)
        running = opened.running
        assert running
        corpus = running.trainer.corpus
        plain = PlainLoop(settings, corpus.training, len(corpus.vocabulary))
        ours = sum(one.numel() for one in running.trainer.model.parameters())
        assert plain.parameters == ours, "the models differ in size"
        told: dict[str, Any] = {"plain": [], "run": []}
        for turn in range(repeats + 1):
            for name, advance in (("plain", plain.advance), ("run", running.train_one_step)):
                seconds = _timed(advance)
                if turn:  # the first turn is a warm-up
                    told[name].append(seconds / STEPS)
        opened.close()
    return told


def _timed(advance: Callable[[], object]) -> float:
    start = perf_counter()
    for _ in range(STEPS):
        advance()
    return perf_counter() - start
