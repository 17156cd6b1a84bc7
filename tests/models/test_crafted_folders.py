"""Folders that describe more than they hold are rejected before memory is taken for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.crafted_folders import FOLDERS
from tests.support.examples import others_slow
from tests.support.tiny_models import (
    BY_THEMSELVES,
    DECODERS,
    ENCODERS,
    PAIRS,
    VISION,
    tiny_model,
)
from visualizer.attention.spec import Device
from visualizer.models.model_folder import size_limit
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("transformers", reason="models need transformers")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory by RLIMIT_AS")

KINDS = (*DECODERS, *ENCODERS, *PAIRS, *VISION, *BY_THEMSELVES)
MAX_PEAK_MB = 600
MAX_SECONDS = 3
Results = dict[str, tuple[float, float, str]]
"""By the name of a folder: the seconds of the processor, the peak in MB, and the error message."""
QUICK = ("70B", "llava", "masks", "one-shape", "generation_config.json")


def opened(folders: Path, names: tuple[str, ...], *options: str) -> Results:
    """Open crafted folders in a process with little memory."""
    for name in names:
        (folders / name).mkdir()
        FOLDERS[name](folders / name)
    program = (sys.executable, "-W", "ignore", "-m", "tests.support.crafted_folders")
    command = (*program, str(folders), *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    lines = map(json.loads, done.stdout.splitlines())
    return {name: (took, peak, said) for name, took, peak, said in lines}


def assert_rejected(results: Results, names: tuple[str, ...]) -> None:
    assert results.keys() == {*names}
    assert [name for name, (_, _, said) in results.items() if not said] == []
    assert {name: peak for name, (_, peak, _) in results.items() if peak > MAX_PEAK_MB} == {}
    assert {name: took for name, (took, _, _) in results.items() if took > MAX_SECONDS} == {}


@pytest.mark.slow
def test_a_small_folder_takes_little_memory(tmp_path: Path) -> None:
    results = opened(tmp_path, QUICK)
    assert_rejected(results, QUICK)
    first, shape = "“model.embed_tokens.weight”", "128,256 × 8,192"
    assert first in results["70B"][2]
    assert shape in results["70B"][2]
    assert f"{first} is 64 × 32 in the files, but 100,000,000 × 32" in results["one-shape"][2]


@pytest.mark.slow
def test_every_crafted_folder_is_rejected(tmp_path: Path) -> None:
    names = tuple(name for name in FOLDERS if name not in QUICK)
    results = opened(tmp_path, names)
    assert_rejected(results, names)
    for name in names:  # a file that is too large is named
        if size_limit(name):
            assert name in results[name][2]


@pytest.mark.slow
def test_a_small_folder_is_not_read_from_the_disk_either(tmp_path: Path) -> None:
    names = ("70B", "llava", "masks", "config.json")
    assert_rejected(opened(tmp_path, names, "--from-disk"), names)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llava", "generation_config.json"])
def test_a_small_folder_is_not_served(tmp_path: Path, name: str) -> None:
    FOLDERS[name](tmp_path)
    command = (sys.executable, "-m", "visualizer", "serve", str(tmp_path), "--port", "0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "config.json" in done.stderr


@pytest.mark.parametrize("kind", others_slow(KINDS))
@pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
def test_every_architecture_is_opened_from_its_own_files(tmp_path: Path, kind: str) -> None:
    made = tiny_model(kind)
    made.save_pretrained(tmp_path)
    opened = open_model(tmp_path, Device.CPU).model.state_dict()
    expected = made.state_dict()
    assert opened.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(opened[name], expected[name])] == []


@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_tied_renamed_or_not_needed_are_accounted_for(tmp_path: Path) -> None:
    made = tiny_model("llama", tie_word_embeddings=True)
    made.model.save_pretrained(tmp_path)  # without the prefix, and without the tied head
    config = json.loads((tmp_path / "config.json").read_text())
    named = config | {"architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(named))
    held = load_file(tmp_path / "model.safetensors")
    assert not any(name.startswith(("model.", "lm_head")) for name in held)
    save_file({**held, "not.needed": torch.zeros(3)}, tmp_path / "model.safetensors")
    opened = open_model(tmp_path, Device.CPU).model
    assert torch.equal(opened.lm_head.weight, made.model.embed_tokens.weight)
