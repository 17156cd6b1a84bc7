"""Small recordings of known weights, written without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.loss_log import MISSING_VALUE, LossRow
from visualizer.language.recording import (
    RecordedTextTokens,
    RecordingMetadata,
    RecordingWriter,
)
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, HEADS = 2, 3
TEXTS = (("the cat sat", ("the", " cat", " sat")), ("a dog", ("a", " dog")))
METADATA = RecordingMetadata(
    "TinyModel", tuple(RecordedTextTokens(*each) for each in TEXTS), 10, LAYERS, HEADS, 1234
)


def weights_at(step: int, text: int) -> np.ndarray:
    """Return causal weights [layer, head, query, key], which differ for each step and text."""
    count = len(TEXTS[text][1])
    generator = np.random.default_rng((step, text))
    scores = generator.random((LAYERS, HEADS, count, count), np.float32) * np.tri(
        count, dtype=np.float32
    )
    weights: np.ndarray = scores / scores.sum(-1, keepdims=True)
    return weights


def write_step(writer: RecordingWriter, step: int) -> None:
    """Write the snapshot after a step, and the loss of the step."""
    tokens = [tokens for _, tokens in TEXTS]
    writer.write_snapshot(step, [weights_at(step, text) for text in range(len(TEXTS))], tokens)
    writer.add_loss(LossRow(step, 5 - step / 10, MISSING_VALUE, MISSING_VALUE, 0.0))
    writer.flush_losses()


def a_recording(folder: Path, *steps: int) -> RunFolder:
    """Write a complete recording."""
    writer = RecordingWriter(RunFolder(folder), METADATA)
    for step in steps:
        write_step(writer, step)
    writer.close()
    return RunFolder(folder)
