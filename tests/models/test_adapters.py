"""Tests that an adapter next to a model is not applied, and that a notice is shown."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.model_folder import read_model_folder
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat"
NAMES = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(2)]


@pytest.fixture
def folder(tmp_path: Path, tiny_model_folder: Path) -> Path:
    """Add a LoRA adapter of rank 2 that changes the queries of a tiny Llama considerably."""
    folder = shutil.copytree(tiny_model_folder, tmp_path / "tiny")
    config = {
        **{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 16},
        **{"target_modules": ["q_proj"], "base_model_name_or_path": "org/base", "bias": "none"},
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    generator = torch.Generator().manual_seed(1)
    prefix, shapes = "base_model.model.", {"lora_A": (2, 32), "lora_B": (32, 2)}
    tensors = {
        f"{prefix}{name}.{part}.weight": torch.randn(shape, generator=generator)
        for name in NAMES
        for part, shape in shapes.items()
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_an_adapter_is_not_applied_and_a_notice_says_so(
    folder: Path, tiny_model_folder: Path
) -> None:
    (run,) = open_model(folder, Device.CPU).attend(TEXT)
    (plain,) = open_model(tiny_model_folder, Device.CPU).attend(TEXT)
    weights, expected = (each.run.trace.read("weights") for each in (run, plain))
    assert (weights == expected).all()
    (notice,) = run.notices
    assert "adapter_config.json" in notice
    assert "not applied" in notice
    assert "merge_and_unload" in notice
    assert plain.notices == ()
    assert read_model_folder(folder).notices == (notice,)  # known before the model is opened


def test_an_adapter_is_not_applied_even_if_peft_is_installed(folder: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft applies adapters")
    import transformers

    opened = open_model(folder, Device.CPU).model
    base = transformers.AutoModelForCausalLM.from_pretrained(
        folder, adapter_kwargs={"subfolder": "none"}
    )
    applied = peft.PeftModel.from_pretrained(base, folder).merge_and_unload()
    weight = opened.get_parameter(f"{NAMES[0]}.weight")
    assert (applied.get_parameter(f"{NAMES[0]}.weight") - weight).abs().max() > 0.1
    assert not any("lora" in name for name, _ in opened.named_parameters())


def test_a_folder_with_only_an_adapter_names_its_base_model(folder: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    with pytest.raises(InputError, match="only an adapter for the model “org/base”") as caught:
        open_model(folder, Device.CPU)
    assert "merge_and_unload" in caught.value.sentence
