"""Tests that loading reports its progress, can be cancelled, and then releases all memory."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
import safetensors.torch
import torch

from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer.attention.spec import Device, Dtype
from visualizer.models.model_folder import parameter_bytes, read_model_folder
from visualizer.models.opened_model import open_model
from visualizer.progress import CancelledError
from visualizer.session.model_opening import open_model_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat"


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_progress_counts_the_bytes_of_the_files(stored: torch.dtype, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m")
    model = tiny_model("llama").to(stored)
    model.save_pretrained(folder)
    whole = (folder / "model.safetensors").stat().st_size
    told: list[tuple[int, int]] = []
    opened = open_model(folder, Device.CPU, progress=lambda done, of: told.append((done, of)))
    assert {of for _, of in told} == {whole}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, whole)
    parts = len(safetensors.torch.load_file(folder / "model.safetensors"))
    assert len(set(done)) > parts // 2
    for name, expected in model.state_dict().items():
        assert torch.equal(opened.model.state_dict()[name], expected.float())


@pytest.mark.slow
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_cancelled_loading_keeps_no_weights(stored: torch.dtype, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m")
    tiny_model("llama").to(stored).save_pretrained(folder)
    weights: list[weakref.ref[torch.Tensor]] = []

    def stop_at_half(done: int, of: int) -> None:
        if 2 * done > of > 0:
            found = [each for each in gc.get_objects() if isinstance(each, torch.nn.Parameter)]
            weights.extend(map(weakref.ref, found))
            raise CancelledError

    before = {id(each) for each in gc.get_objects() if isinstance(each, torch.nn.Parameter)}
    for opening in (partial(open_model, folder), partial(open_model_source, folder, text="a")):
        with pytest.raises(CancelledError):
            opening(device=Device.CPU, dtype=Dtype.FLOAT32, progress=stop_at_half)
    assert weights
    gc.collect()
    left = [each() for each in weights]
    assert {id(each) for each in left if each is not None} <= before


def test_the_model_outlives_its_file(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m")
    model = open_model(folder, Device.CPU)
    before = model.attend(TEXT)[0].run.trace.read("weights").copy()
    with (folder / "model.safetensors").open("r+b") as file:  # like a training run that saves again
        file.truncate(0)
    np.testing.assert_array_equal(model.attend(TEXT)[0].run.trace.read("weights"), before)


def test_layers_heads_and_bytes_are_read_from_the_config(tmp_path: Path) -> None:
    for kind in ("llama", "gpt2", "bart"):
        found = read_model_folder(save_tiny_model(tmp_path / kind, kind, n_layer=2, n_head=4))
        assert (found.layers, found.heads) == (2, 4)
        assert parameter_bytes(found.parameters, Dtype.FLOAT64) == 8 * found.parameters
    assert not read_model_folder(tmp_path / "llama", has_fingerprint=False).fingerprint
