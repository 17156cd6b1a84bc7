"""Every preset can be trained, and is found by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from visualizer.language.corpora.corpus import Split, load
from visualizer.language.language_models import build
from visualizer.language.training_presets import PRESETS, Preset
from visualizer.language.training_settings import CorpusKind, CorpusSource, ModelKind, problems

if TYPE_CHECKING:
    from pathlib import Path


def test_each_has_a_name_of_its_own_and_one_sentence() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    assert len({preset.title for preset in PRESETS}) == len(PRESETS)
    for preset in PRESETS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", preset.name)
        assert re.fullmatch(r"[A-Z][^.]+\.", preset.says)


def test_every_model_has_one() -> None:
    assert {preset.settings.model for preset in PRESETS} == {*ModelKind}


def test_the_notes_transformer_has_heads_of_the_notes() -> None:
    (preset,) = [one for one in PRESETS if one.name == "notes-transformer"]
    settings = preset.settings
    assert (settings.heads, settings.layers, settings.steps) == (1, 3, 10_000)
    assert (settings.block, settings.batch, settings.width, settings.rate) == (8, 128, 64, 1e-3)
    assert "of one head" in preset.says
    settings = replace(settings, source=CorpusSource(), threads=1)
    model = build(settings, 65)
    assert isinstance(model.norm, torch.nn.LayerNorm)  # as the description says
    ids = torch.randint(65, (64, 9), generator=torch.Generator().manual_seed(1))
    logits = model(ids[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(np.log(65), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_can_be_trained(preset: Preset, tmp_path: Path) -> None:
    settings = preset.settings
    if settings.source.kind is CorpusKind.FILE:
        assert [problem.field for problem in problems(settings)] == ["path"]
        path = tmp_path / "a.txt"
        path.write_text("To be, or not to be. " * 99, encoding="utf-8")
        settings = replace(settings, source=replace(settings.source, path=str(path)))
    assert problems(settings) == ()
    generator = np.random.Generator(np.random.PCG64(1))
    batch = load(settings).batch(Split.VALIDATION, settings.batch, settings.block, generator)
    assert batch.shape == (settings.batch, settings.block + 1)
