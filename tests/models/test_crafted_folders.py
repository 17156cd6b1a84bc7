"""Tests that folders that describe more than they contain are rejected before allocation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.crafted_folders import FOLDERS
from tests.support.examples import others_slow
from tests.support.tiny_models import BY_THEMSELVES, DECODERS, ENCODERS, PAIRS, VISION, tiny_model
from visualizer.attention.spec import Device
from visualizer.models.model_folder import file_size_limit
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("transformers", reason="models need transformers")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory by RLIMIT_AS")

KINDS = (*DECODERS, *ENCODERS, *PAIRS, *VISION, *BY_THEMSELVES)
MAX_PEAK_MB = 600
MAX_SECONDS = 3


class Result(NamedTuple):
    """Result of opening a folder: the seconds it took, the peak memory in MB and the message."""

    name: str
    took: float
    peak: float
    said: str


FROM_DISK = ("70B", "llava", "masks", "config.json")
"""Folders that are also opened with their layers on disk."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Open all crafted folders in a process with little memory, and some of them from disk."""
    folders = tmp_path_factory.mktemp("crafted")
    for name, craft in FOLDERS.items():
        (folders / name).mkdir()
        craft(folders / name)
    program = (sys.executable, "-W", "ignore", "-m", "tests.support.crafted_folders")
    command = (*program, str(folders), *FROM_DISK)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    shutil.rmtree(folders)  # some are large
    return [msgspec.json.decode(line, type=Result) for line in done.stdout.splitlines()]


def assert_rejected(results: list[Result]) -> None:
    assert [each.name for each in results if not each.said] == []
    assert {each.name: each.peak for each in results if each.peak > MAX_PEAK_MB} == {}
    assert {each.name: each.took for each in results if each.took > MAX_SECONDS} == {}


@pytest.mark.slow
def test_every_crafted_folder_is_rejected(results: list[Result]) -> None:
    opened = results[: len(FOLDERS)]
    assert_rejected(opened)
    said = {each.name: each.said for each in opened}
    assert said.keys() == FOLDERS.keys()
    for name in FOLDERS:  # the message names a file that is too large
        if file_size_limit(name):
            assert name in said[name]
    first, shape = "“model.embed_tokens.weight”", "128,256 × 8,192"
    assert first in said["70B"]
    assert shape in said["70B"]
    assert f"{first} is 64 × 32 in the files, but 100,000,000 × 32" in said["one-shape"]


@pytest.mark.slow
def test_crafted_folders_are_rejected_when_run_from_disk(results: list[Result]) -> None:
    from_disk = results[len(FOLDERS) :]
    assert_rejected(from_disk)
    assert tuple(each.name for each in from_disk) == FROM_DISK


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llava", "generation_config.json"])
def test_crafted_folders_cannot_be_served(tmp_path: Path, name: str) -> None:
    FOLDERS[name](tmp_path)
    command = (sys.executable, "-m", "visualizer", "serve", str(tmp_path), "--port", "0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "config.json" in done.stderr


@pytest.mark.parametrize("kind", others_slow(KINDS))
@pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
def test_every_architecture_is_opened_from_its_own_files(tmp_path: Path, kind: str) -> None:
    made = tiny_model(kind)
    made.save_pretrained(tmp_path)
    opened = open_model(tmp_path, Device.CPU).model.state_dict()
    expected = made.state_dict()
    assert opened.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(opened[name], expected[name])] == []


@pytest.mark.filterwarnings("ignore")
def test_tied_renamed_and_unused_tensors_are_handled(tmp_path: Path) -> None:
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
