"""Tests that a model has the same attention and predictions on a CUDA GPU as on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

import visualizer
from tests.support.served_models import TOKEN, served
from tests.support.tiny_models import BY_THEMSELVES, DECODERS, ENCODERS, PAIRS, save_tiny_model
from tests.support.tiny_vision_models import PROCESSORS, picture, save_vision_model
from visualizer.attention.spec import Device
from visualizer.models import long_text_runner
from visualizer.models.model_client.remote_model import connect_to_model_server
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind
from visualizer.models.model_text_runs import open_model_folder, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here"),
    pytest.mark.filterwarnings("ignore"),  # the libraries warn about tiny models
]

TEXT = "the cat sat on a mat the dog"
LONG = " ".join(["the cat sat on a mat ."] * 30)
SIZES = {
    "num_key_value_heads": 4, "num_attention_heads": 8, "num_hidden_layers": 4,
    "max_position_embeddings": 1024, "sliding_window": None,
}  # fmt: skip
WITHIN = 1e-5
CHOOSING = {"deepseek_v32", "afmoe"}
"""Architectures that select keys or experts; in tiny models, ties differ by device."""
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"edits": (HeadEdit(1, 5), HeadEdit(3, 7, HeadEditKind.SCALED, 2.0))},
    {"edits": (HeadEdit(2, 0, HeadEditKind.MEAN),)},
    {"edits": (HeadEdit(2, 0, HeadEditKind.PATCHED, text="the dog ran to a log the cat"),)},
    {"cuts": (CutEdges(0, 2, ((3, 1), (4, 0))),)},
)
OF_LONG = 2
"""Number of these architectures that are tested with a long text."""


def assert_near(here: np.ndarray, there: np.ndarray) -> None:
    """Compare arrays with a tolerance relative to the largest value."""
    forbidden = np.isneginf(here)
    np.testing.assert_array_equal(forbidden, np.isneginf(there))
    largest = np.abs(here[np.isfinite(here)]).max(initial=1.0)
    np.testing.assert_allclose(
        there[~forbidden], here[~forbidden], rtol=0, atol=WITHIN * float(largest)
    )


def assert_same_runs(here: Run, there: Run) -> None:
    assert there.trace.names == here.trace.names
    for name in here.trace.names:
        assert_near(here.trace.read(name), there.trace.read(name))


@pytest.mark.parametrize("kind", sorted({*DECODERS, *ENCODERS, *PAIRS, *BY_THEMSELVES} - CHOOSING))
def test_every_architecture_has_the_same_values_on_both_devices(kind: str, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / kind, kind)
    seen = [visualizer.open_model(folder, device=each).attend(TEXT) for each in ("cpu", "cuda")]
    here, there = seen
    assert here.stages
    assert there.stages == here.stages
    assert there.parts == here.parts
    for part in here.parts:
        for name in here.part(part).stages:
            assert_near(here.part(part)[name], there.part(part)[name])
    assert any("CUDA GPU" in run.run.device for run in there.runs)


@pytest.mark.parametrize("kind", PROCESSORS)
def test_images_have_the_same_values_on_both_devices(kind: str, tmp_path: Path) -> None:
    folder = save_vision_model(tmp_path / kind, kind)
    picture(tmp_path / "image.png")
    here, there = (
        visualizer.open_model(folder, device=each).attend(image=tmp_path / "image.png")
        for each in ("cpu", "cuda")
    )
    assert there.stages == here.stages
    for name in here.stages:
        assert_near(here[name], there[name])


def told(model: visualizer.Model) -> list[list[tuple[str, float]]]:
    """Return the next tokens that a model predicts in several ways, with their probabilities."""
    return [
        model.next_tokens(TEXT),
        model.ablate(TEXT, [(0, 1)]),
        model.cut(TEXT, [(1, 0, 6, 2)]),
        model.patch(TEXT, "the dog sat on a mat the cat", [(0, 1)]),
        *(row for layer in model.logit_lens(TEXT, most=3) for row in layer),
    ]


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt_oss", "gpt2"])
def test_analyses_have_the_same_results_on_both_devices(kind: str, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / kind, kind)
    here, there = (visualizer.open_model(folder, device=each) for each in ("cpu", "cuda"))
    assert_near(here.ablations(TEXT), there.ablations(TEXT))
    one, other = (model.logit_parts(TEXT, "cat") for model in (here, there))
    for name in ("heads", "rest", "embedding", "bias", "logit"):
        assert_near(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))
    for mine, its in zip(told(here), told(there), strict=True):
        shares = dict(its)
        for token, share in mine:
            assert shares.get(token, share) == pytest.approx(share, abs=WITHIN)
    made = [model.generate(TEXT, tokens=4) for model in (here, there)]
    assert made[1].tokens == made[0].tokens


@pytest.mark.parametrize(("is_served", "is_long"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("kind", ["llama", "gpt_oss"])
def test_edited_and_served_runs_have_the_same_values_on_both_devices(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_served: bool, is_long: bool
) -> None:
    if is_long:
        monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    folder = save_tiny_model(tmp_path / kind, kind, **SIZES)
    text = LONG if is_long else TEXT
    source, held = open_model_folder(folder, Device.CPU)
    with served(folder) if is_served else nullcontext() as server:
        if server:
            remote = connect_to_model_server(server.address, TOKEN)
            where, other = Device.CPU, remote.source
        else:
            where, (other, on_gpu) = Device.CUDA, open_model_folder(folder, Device.CUDA)
        for changed in CHANGES[: OF_LONG if is_long else None]:
            here = read_text(replace(source, **changed), text, Device.CPU)
            there = read_text(replace(other, **changed), text, where)
            assert "CUDA GPU" in there.device
            assert here.trace.is_blockwise == there.trace.is_blockwise == is_long
            assert_same_runs(here, there)
            assert here.reading is not None
            assert there.reading is not None
            assert here.reading.model is held
            assert there.reading.model is (remote if server else on_gpu)
            assert [each.token for each in there.reading.next_tokens] == [
                each.token for each in here.reading.next_tokens
            ]
            measures = [run.trace.head_measures("weights", run.key_texts) for run in (here, there)]
            for name in ("entropy", "first", "own", "previous", "largest", "value_weighting"):
                assert_near(*(getattr(each, name) for each in measures))


def assert_spread_alike(folder: Path, device: str, *options: str) -> None:
    """Serve a model with several processes on a device, and compare it with the CPU."""
    source, held = open_model_folder(folder, Device.CPU)
    with served(folder, *options) as server:
        remote = connect_to_model_server(server.address, TOKEN)
        there = read_text(remote.source, TEXT, Device.CPU)
        assert there.device.startswith(device)
        here = read_text(source, TEXT, Device.CPU)
        assert here.reading is not None
        assert here.reading.model is held
        for name in there.trace.names:
            assert_near(here.trace.read(name), there.trace.read(name))


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "llama", "llama", **SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--tensor-parallel", "--pipeline-parallel"])
def test_processes_on_the_cpu_do_not_use_the_gpu(option: str, llama: Path) -> None:
    assert_spread_alike(llama, "CPU", option, "2", "--device", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--tensor-parallel", "--pipeline-parallel"])
def test_each_process_has_its_own_gpu(option: str, llama: Path) -> None:
    if torch.cuda.device_count() >= 2:
        assert_spread_alike(llama, "CUDA GPU", option, "2")
        return
    said = "2 processes need one GPU each, but this machine has 1 GPU"
    with pytest.raises(AssertionError, match=said), served(llama, option, "2"):
        pass
