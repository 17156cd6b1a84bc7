"""Tests that models can be recorded, edited and analysed on a GPU without float64."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from tests.support.examples import others_slow
from tests.support.simulated_gpu import GPU, GpuWithoutFloat64, TensorOnGpu, move_to_gpu
from tests.support.small_trainings import begun
from tests.support.tiny_models import save_tiny_model
from tests.support.tiny_vision_models import picture, save_vision_model
from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.spec import Device
from visualizer.language.corpora.corpus import CorpusSplit
from visualizer.language.probe import ProbeText, run_probe
from visualizer.language.sampling import SamplingSettings
from visualizer.models.head_edits import compute_ablation_changes, context_edits
from visualizer.models.kv_cache_generation import generate
from visualizer.models.logit_attribution import logit_lens, logit_parts
from visualizer.models.model_loading import LoadedModel
from visualizer.models.model_source import HeadEdit, HeadEditKind
from visualizer.models.opened_model import OpenedModel, open_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT, OTHER = "the cat sat on the mat", "a dog ran to a log"
KINDS = (
    "llama", "gpt2", "qwen2_moe", "granite_swa", "deepseek_v3", "qwen3_next", "bert", "bart", "t5",
    "modernbert", "gemma2", "granite", "opt", "bloom", "gpt_oss",
)  # fmt: skip


@contextmanager
def on_gpu(model: OpenedModel) -> Iterator[OpenedModel]:
    """Run a model on the simulated GPU within the context."""
    move_to_gpu(model.model)
    with GpuWithoutFloat64():
        yield model


def test_the_simulated_gpu_has_no_float64() -> None:
    numbers = torch.ones(3).as_subclass(TensorOnGpu)
    for convert in (
        lambda: numbers.double(),
        lambda: numbers.to(torch.float64),
        lambda: numbers.sum(dtype=torch.float64),
        lambda: numbers.mul(torch.ones(1, dtype=torch.float64).as_subclass(TensorOnGpu)),
    ):
        with pytest.raises(TypeError, match="float64"):
            convert()  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="same device"):
        numbers * torch.ones(3)
    with pytest.raises(TypeError, match="numpy"):
        numbers.numpy()
    with GpuWithoutFloat64(), pytest.raises(TypeError, match="float64"):
        torch.zeros(3, dtype=torch.float64, device=GPU)
    assert type(to_float64_on_cpu(numbers)) is torch.Tensor
    assert to_float64_on_cpu(numbers).dtype is torch.float64


@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_texts_have_the_same_values_as_on_the_cpu(tmp_path: Path, kind: str) -> None:
    model = open_model(save_tiny_model(tmp_path / kind, kind), Device.CPU)
    second = OTHER if model.is_encoder_decoder else None
    wanted = model.read(TEXT, second=second)
    numbers = [  # before the weights of the model are moved
        {name: one.run.trace.read(name) for name in one.run.trace.names} for one in wanted.runs
    ]
    fresh = OpenedModel(LoadedModel(model.folder, model.model, model.tokenizer, model.device))
    with on_gpu(fresh):
        for _ in range(2):  # the recognized steps are used for the second text
            found = fresh.read(TEXT, second=second)
    for one, other, there in zip(found.runs, wanted.runs, numbers, strict=True):
        assert one.notices == other.notices
        assert one.run.trace.names == other.run.trace.names
        for name in one.run.trace.names:
            np.testing.assert_allclose(one.run.trace.read(name), there[name], atol=1e-6)
            step, same = (each.run.trace.stage(name).operation for each in (one, other))
            assert step is same
    if wanted.next_token is not None:
        assert found.next_token is not None
        np.testing.assert_allclose(found.next_token, wanted.next_token, atol=1e-6)


def asked(model: OpenedModel) -> list[np.ndarray]:
    """Return the results of every analysis of a generating model."""
    mean, patch = (
        HeadEdit(0, 1, HeadEditKind.MEAN),
        HeadEdit(0, 2, HeadEditKind.PATCHED, text=OTHER),
    )
    changes = model.read(
        TEXT, context_edits(model, TEXT, [mean, patch]), {(0, 1): [(3, 1)]}
    ).changes
    parts, lens = logit_parts(model, TEXT), logit_lens(model, TEXT)
    found: list[Any] = [changes[0], changes[1], parts.heads, parts.rest, lens.numbers]
    found += [lens.probabilities, compute_ablation_changes(model, TEXT).changes]
    found += generate(model, TEXT, 2, SamplingSettings(0.0)).weights
    return [np.asarray(each) for each in found]


@pytest.mark.parametrize("kind", others_slow(["llama", "gpt2", "opt"]))
def test_analyses_have_the_same_results_as_on_the_cpu(tmp_path: Path, kind: str) -> None:
    model = open_model(save_tiny_model(tmp_path / kind, kind), Device.CPU)
    wanted = asked(model)
    fresh = OpenedModel(LoadedModel(model.folder, model.model, model.tokenizer, model.device))
    with on_gpu(fresh):
        found = asked(fresh)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("kind", others_slow(["llama", "gpt_oss"]))
def test_long_texts_have_the_same_values_as_on_the_cpu(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(save_tiny_model(tmp_path / kind, kind), Device.CPU)
    fresh = OpenedModel(LoadedModel(model.folder, model.model, model.tokenizer, model.device))
    model.long_texts.max_weight_bytes = fresh.long_texts.max_weight_bytes = 0
    (wanted,) = model.read(TEXT, by_blocks=True).runs
    with on_gpu(fresh):
        (found,) = fresh.read(TEXT, by_blocks=True).runs
    assert found.run.trace.is_blockwise
    assert found.notices == wanted.notices
    for name in found.run.trace.names:
        there = wanted.run.trace.read(name)
        np.testing.assert_allclose(found.run.trace.read(name), there, atol=1e-6)


@pytest.mark.parametrize("kind", others_slow(["vit", "dinov2"]))
def test_images_have_the_same_values_as_on_the_cpu(tmp_path: Path, kind: str) -> None:
    picture(tmp_path / "noise.png")
    model = open_model(save_vision_model(tmp_path / kind, kind), Device.CPU)
    (wanted,) = model.attend_image(tmp_path / "noise.png")
    fresh = OpenedModel(LoadedModel(model.folder, model.model, model.tokenizer, model.device))
    with on_gpu(fresh):
        (found,) = fresh.attend_image(tmp_path / "noise.png")
    assert found.run.trace.names == wanted.run.trace.names
    for name in found.run.trace.names:
        there = wanted.run.trace.read(name)
        np.testing.assert_allclose(found.run.trace.read(name), there, atol=1e-6)


def trained_and_probed(folder: Path, *, is_on_gpu: bool) -> tuple[list[float], Any]:
    running = begun(folder, dropout=0.0).running
    assert running
    trainer = running.trainer
    if is_on_gpu:
        move_to_gpu(trainer.model)
        trainer.device = GPU
    trainer.optimiser = torch.optim.AdamW(trainer.model.parameters(), lr=1e-3)
    vocabulary = trainer.corpus.vocabulary
    with GpuWithoutFloat64() if is_on_gpu else nullcontext():
        losses = [trainer.train_one_step() for _ in range(3)] + [
            trainer.evaluate(CorpusSplit.VALIDATION, 2)
        ]
        text = vocabulary.join_tokens(vocabulary.ids_to_tokens(range(5)))
        return losses, run_probe(
            trainer.model, ProbeText.from_text(text, vocabulary, trainer.model)
        )


def test_lab_models_are_trained_and_probed_as_on_the_cpu(tmp_path: Path) -> None:
    losses, wanted = trained_and_probed(tmp_path / "cpu", is_on_gpu=False)
    again, found = trained_and_probed(tmp_path / "gpu", is_on_gpu=True)
    assert again == pytest.approx(losses, abs=1e-5)
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, atol=1e-5)
