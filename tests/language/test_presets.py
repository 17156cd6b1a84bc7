"""Every preset can be trained and is found by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from visualizer.language.corpora.corpus import CorpusSplit, load_corpus
from visualizer.language.language_models import build_model
from visualizer.language.training_presets import PRESETS, TrainingPreset
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
    find_settings_problems,
)

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.language.language_models import LanguageModel


def test_each_preset_has_a_unique_name_and_one_sentence() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    assert len({preset.title for preset in PRESETS}) == len(PRESETS)
    for preset in PRESETS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", preset.name)
        assert re.fullmatch(r"[A-Z]([^.]|\d\.\d)+\.", preset.description)


def test_every_model_has_a_preset() -> None:
    assert {preset.settings.model for preset in PRESETS} == {*ModelKind}


class NotesBlock(nn.Module):
    """A block with one head in plain torch: pre-norm, without an output projection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        normed = self.ln1(x)
        scores = self.query(normed) @ self.key(normed).mT * x.shape[-1] ** -0.5
        above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        x = x + scores.masked_fill(above, -torch.inf).softmax(-1) @ self.value(normed)
        result: Tensor = x + self.net(self.ln2(x))
        return result


class NotesTransformer(nn.Module):
    """The transformer of the lecture notes in plain torch."""

    def __init__(self, tokens: int, width: int = 64, block: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(NotesBlock(width) for _ in range(layers)))
        self.projection = nn.Linear(width, tokens)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.position.weight[: ids.shape[-1]]
        logits: Tensor = self.projection(self.blocks(x))
        return logits


PARTS = {
    "attention.W_": "",
    "attention_norm": "ln1",
    "feed_forward.0": "ln2",
    "feed_forward.1": "net.0",
    "feed_forward.3": "net.2",
    "layers": "blocks",
}
"""Parts of the program's parameter names, and the corresponding parts in the plain model."""


def notes_model(preset: str) -> LanguageModel:
    (found,) = [one for one in PRESETS if one.name == preset]
    return build_model(replace(found.settings, source=CorpusSource(), threads=1), 65)


def test_the_notes_transformer_agrees_with_the_lecture_notes() -> None:
    (preset,) = [one for one in PRESETS if one.name == "notes-transformer"]
    settings = preset.settings
    assert (settings.heads, settings.layers, settings.steps) == (1, 3, 10_000)
    assert (settings.block, settings.batch, settings.width, settings.rate) == (8, 128, 64, 1e-3)
    model, plain = notes_model("notes-transformer"), NotesTransformer(65)
    state = {}
    for name, parameter in model.named_parameters():
        for part, other in PARTS.items():
            name = name.replace(part, other)
        state[name] = parameter
    plain.load_state_dict(state)  # this rejects missing and additional parameters
    ids = torch.randint(65, (16, 8), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(model(ids), plain(ids), rtol=0, atol=1e-5)
        torch.testing.assert_close(model(ids, fused=True), plain(ids), rtol=0, atol=1e-5)


def test_the_models_of_the_notes_have_the_reported_numbers_of_parameters() -> None:
    width, tokens, block = 64, 65, 8
    ends = tokens * width + width * tokens + tokens
    feed_forward = width * 4 * width + 4 * width + 4 * width * width + width
    layer = 3 * width * width + 2 * 2 * width + feed_forward
    expected = {
        "notes": ends,
        "notes-average": ends,
        "notes-dot-product": ends + block * width,
        "notes-transformer": ends + block * width + 3 * layer,
    }
    assert expected["notes-transformer"] == 145_793
    for name, count in expected.items():
        model = notes_model(name)
        assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize(
    ("kind", "first", "near"), [(ModelKind.NOTES, 4.65, 0.1), (ModelKind.TRANSFORMER, 4.17, 0.05)]
)
def test_the_initial_loss_of_a_transformer_is_as_reported(
    kind: ModelKind, first: float, near: float
) -> None:
    (preset,) = [one for one in PRESETS if one.name == "notes-transformer"]
    settings = replace(preset.settings, source=CorpusSource(), model=kind, threads=1)
    ids = torch.randint(65, (64, 9), generator=torch.Generator().manual_seed(1))
    losses = []
    for seed in range(5):
        logits = build_model(replace(settings, seed=seed), 65)(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        losses.append(loss.item())
    assert np.mean(losses) == pytest.approx(first, abs=near)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_preset_can_be_trained(preset: TrainingPreset, tmp_path: Path) -> None:
    settings = preset.settings
    if settings.source.kind is CorpusKind.FILE:
        assert [problem.field for problem in find_settings_problems(settings)] == ["path"]
        path = tmp_path / "a.txt"
        path.write_text("To be, or not to be. " * 99, encoding="utf-8")
        settings = replace(settings, source=replace(settings.source, path=str(path)))
    assert find_settings_problems(settings) == ()
    generator = np.random.Generator(np.random.PCG64(1))
    batch = load_corpus(settings).sample_batch(
        CorpusSplit.VALIDATION, settings.batch, settings.block, generator
    )
    assert batch.shape == (settings.batch, settings.block + 1)
