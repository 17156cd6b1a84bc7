"""Tests that paths and names of models are resolved, or rejected with instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import visualizer
from tests.support.hub_folders import cache_config, cache_folder, repository
from visualizer.app import main
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.local_models import list_models
from visualizer.models.model_folder import model_name, read_model_folder
from visualizer.models.model_path import find_model_folder
from visualizer.models.text_reading import open_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
LLAMA = {"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4}


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_model_folder(path)
    assert caught.value.field == "model"
    return caught.value.sentence


@pytest.fixture
def cached(tmp_path: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a model into a cache; return the folder of its snapshot."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return cache_folder(tmp_path / "hub", "org/tiny", tiny_model_folder)


def test_the_folder_of_a_repository_leads_to_its_current_snapshot(cached: Path) -> None:
    whole = cached.parent.parent
    other = cache_config(whole.parent, "org/tiny", LLAMA, "b" * 40)
    for path in (whole, whole / "snapshots", cached):
        assert find_model_folder(path) == cached
        assert read_model_folder(path).name == "org/tiny"
    assert model_name(whole) == model_name(other) == "org/tiny"
    assert find_model_folder(other) == other


def test_a_name_leads_to_the_model_in_the_cache(cached: Path) -> None:
    model = visualizer.open_model("org/tiny")
    assert "org/tiny" in repr(model)
    source, _ = open_source(cached.parent.parent, Device.CPU)
    assert source.path == cached  # an absolute path, for saved documents


def test_an_unknown_name_is_reported_with_instructions(cached: Path) -> None:
    with pytest.raises(InputError, match="“org/other”") as caught:
        visualizer.open_model("org/other")
    assert str(cached.parent.parent.parent) in caught.value.sentence
    assert "hf download org/other" in caught.value.sentence


def test_a_repository_without_a_snapshot_is_named(tmp_path: Path) -> None:
    empty = repository(tmp_path, "org/empty")
    (empty / "snapshots").mkdir(parents=True)
    assert "org/empty" in refusal(empty)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "generation_config.json"])
def test_a_broken_link_names_the_file_and_the_model(cached: Path, name: str) -> None:
    (cached / name).unlink()
    (cached / name).symlink_to("../../blobs/" + "f" * 64)
    said = refusal(cached)
    assert f"“{name}” is missing" in said
    assert "hf download org/tiny" in said
    assert "ffff" not in said
    assert list_models(cached.parents[2])[0].unavailable_reason == said


def test_a_missing_weights_file_is_named(cached: Path) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    (cached / "model.safetensors").rename(cached / names[0])
    (cached / names[1]).symlink_to("../../blobs/" + "f" * 64)
    index = f'{{"weight_map": {{"a": "{names[0]}", "b": "{names[1]}"}}}}'
    (cached / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    said = refusal(cached)
    assert names[1] in said
    assert "hf download org/tiny" in said


def test_a_gguf_file_is_rejected_with_conversion_instructions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGUF")
    for each in (path, tmp_path):
        assert "“small.gguf” is a GGUF file" in refusal(each)
    assert "gguf_file" in refusal(path)
    assert main(["model", str(path), "--text", "a"]) == 1
    assert main([str(path), "--export", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err.count("is a GGUF file") == 2


def test_a_file_or_broken_link_in_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    assert "“model.bin” is a file" in refusal(tmp_path / "model.bin")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert "no longer exists" in refusal(tmp_path / "gone")
