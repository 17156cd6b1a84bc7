"""Fixtures of the documentation tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.small_trainings import begun, finish
from visualizer.language.training_settings import CorpusKind, CorpusSource

if TYPE_CHECKING:
    from pathlib import Path

POEMS = "The cat sat on the mat.\n" * 500


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model that was trained on the poems."""
    parent = tmp_path_factory.mktemp("runs")
    (parent / "poems.txt").write_text(POEMS, encoding="utf-8")
    source = CorpusSource(CorpusKind.FILE, path=str(parent / "poems.txt"))
    opened = begun(parent / "poems", source=source, steps=4)
    finish(opened)
    opened.close()
    return parent / "poems"
