"""Small training runs that are quick but can learn something."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from visualizer.language.loss_log import LossRow, parse_loss_rows
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
    TrainingSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.language.training_run import TrainingRun

QUICK = TrainingSettings(
    source=CorpusSource(CorpusKind.REPEAT, size=4_000),
    model=ModelKind.TRANSFORMER,
    block=10,
    width=16,
    heads=2,
    layers=2,
    dropout=0.1,
    batch=8,
    rate=3e-3,
    steps=30,
    threads=1,
)


def rows_of(folder: Path) -> list[LossRow]:
    """Read the losses of a run."""
    with RunFolder(folder).loss_log_file.path.open(encoding="utf-8") as lines:
        return parse_loss_rows(lines)


def quick(**changes: Any) -> TrainingSettings:
    """Return small training settings with the given changes."""
    return replace(QUICK, **changes)


def begun(path: Path, **changes: Any) -> OpenedRun:
    """Start a small run in a folder."""
    return OpenedRun(RunFolder(path), quick(**changes))


def training_of(opened: OpenedRun) -> TrainingRun:
    """Return the training of an open run."""
    assert opened.running
    return opened.running


def finish(opened: OpenedRun, until: int | None = None) -> TrainingRun:
    """Train a run until its end, or until the given step, and return its training."""
    training = training_of(opened)
    while not training.is_done and training.step != until:
        training.train_one_step()
    return training


def fill_disk(patched: pytest.MonkeyPatch) -> None:
    """Let every write fail because the disk is full."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patched.setattr(os, "fsync", fail)


@contextmanager
def full_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        fill_disk(patched)
        yield
