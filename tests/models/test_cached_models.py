"""Tests that models in the local cache are listed, and found by path or name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import visualizer
from tests.support.hub_folders import COMMIT, cache_config, cache_folder, repository
from visualizer.app import main
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.models import model_path
from visualizer.models.cached_models import LocalModelEntry, list_cached_models
from visualizer.models.model_folder import model_name, read_model_folder
from visualizer.models.model_path import find_model_folder, hub_cache_folder
from visualizer.models.model_text_runs import open_model_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
LLAMA = {"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4}


def test_the_cache_folder_follows_the_environment_variables() -> None:
    home = Path.home()
    assert hub_cache_folder({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache_folder({"HF_HOME": "~/b", "XDG_CACHE_HOME": "/c"}) == home / "b" / "hub"
    assert hub_cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache_folder({}) == home / ".cache" / "huggingface" / "hub"


def test_an_absent_or_empty_cache_contains_no_models(tmp_path: Path) -> None:
    assert list_cached_models(tmp_path / "nothing") == ()
    assert list_cached_models(tmp_path) == ()


def test_models_are_listed_with_their_sizes(tmp_path: Path, tiny_model_folder: Path) -> None:
    real = cache_folder(tmp_path, "org/tiny", tiny_model_folder)
    cache_config(tmp_path, "Another/one", {**LLAMA, "model_type": "mistral"})
    for other in ("datasets--some--texts", "models--empty--one", ".locks"):
        (tmp_path / other).mkdir()
    (tmp_path / "models--a--file").touch()
    another, tiny = list_cached_models(tmp_path)
    size = sum(file.stat().st_size for file in tiny_model_folder.iterdir())
    numbers = tiny.parameters
    assert tiny == LocalModelEntry(
        "org/tiny", real, "llama", 2, 4, numbers, size, ModelDtype.FLOAT32
    )
    assert 4 * numbers < (tiny_model_folder / "model.safetensors").stat().st_size < 5 * numbers
    assert (another.name, another.kind, another.layers, another.heads, another.parameters) == (
        "Another/one", "mistral", 3, 4, 17,
    )  # fmt: skip


def test_counts_in_sections_of_a_config_are_found(tmp_path: Path) -> None:
    cache_config(tmp_path, "a/b", {"model_type": "gemma3", "text_config": LLAMA})
    cache_config(tmp_path, "c/d", {"model_type": "x", "n_layer": True, "n_head": "4", "z": [1]})
    assert [(model.layers, model.heads) for model in list_cached_models(tmp_path)] == [
        (3, 4),
        (0, 0),
    ]


def test_models_that_cannot_be_opened_state_the_reason(tmp_path: Path) -> None:
    cache_config(tmp_path, "a/code", {**LLAMA, "auto_map": {"AutoModel": "m.Model"}})
    pickled = cache_config(tmp_path, "b/pickled", LLAMA)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    broken = cache_config(tmp_path, "c/broken", LLAMA)
    (broken / "model.safetensors").write_bytes(b"\xff" * 100)
    (cache_config(tmp_path, "d/bare", LLAMA) / "config.json").unlink()
    said = {model.name: model.unavailable_reason for model in list_cached_models(tmp_path)}
    assert "custom code" in said["a/code"]
    assert "can run code" in said["b/pickled"]
    assert "damaged" in said["c/broken"]
    assert "no config.json" in said["d/bare"]
    assert all(model.bytes for model in list_cached_models(tmp_path))


def test_the_snapshot_of_the_main_branch_or_the_newest_is_used(tmp_path: Path) -> None:
    old = cache_config(tmp_path, "a/b", LLAMA)
    new = cache_config(tmp_path, "a/b", LLAMA, "b" * 40)
    os.utime(old, (1, 1))
    assert list_cached_models(tmp_path)[0].path == new
    refs = repository(tmp_path, "a/b") / "refs"
    refs.mkdir()
    for written, expected in ((COMMIT, old), ("c" * 40, new), ("../../..", new)):
        (refs / "main").write_text(written, encoding="ascii")
        assert list_cached_models(tmp_path)[0].path == expected


@pytest.mark.skipif(os.name == "nt", reason="such a name cannot be there")
def test_a_name_is_shown_as_one_line_of_text(tmp_path: Path) -> None:
    cache_config(tmp_path, "a/<b>\n\x07c", LLAMA)
    assert list_cached_models(tmp_path)[0].name == "a/<b>��c"


def test_the_number_of_examined_entries_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        cache_config(tmp_path, f"a/{number}", LLAMA)
    monkeypatch.setattr(model_path, "MAX_ENTRIES", 3)
    assert len(list_cached_models(tmp_path)) == 3


@pytest.mark.skipif(os.name == "nt", reason="has no pipes that are files")
def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    snapshot = cache_config(tmp_path, "a/b", LLAMA)
    (snapshot / "config.json").unlink()
    os.mkfifo(snapshot / "config.json")
    (repository(tmp_path, "a/b") / "refs").mkdir()
    os.mkfifo(repository(tmp_path, "a/b") / "refs" / "main")
    assert "it is not a file, but a pipe" in list_cached_models(tmp_path)[0].unavailable_reason


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
    source, _ = open_model_folder(cached.parent.parent, Device.CPU)
    assert source.path == cached  # an absolute path, for saved documents


def test_an_unknown_name_is_reported_with_instructions(cached: Path) -> None:
    with pytest.raises(InputError, match="“org/other”") as caught:
        visualizer.open_model("org/other")
    assert str(cached.parent.parent.parent) in caught.value.sentence
    assert "attention-visualizer model org/other --download" in caught.value.sentence


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
    assert "attention-visualizer model org/tiny --download" in said
    assert "ffff" not in said
    assert list_cached_models(cached.parents[2])[0].unavailable_reason == said


def test_a_missing_weights_file_is_named(cached: Path) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    (cached / "model.safetensors").rename(cached / names[0])
    (cached / names[1]).symlink_to("../../blobs/" + "f" * 64)
    index = f'{{"weight_map": {{"a": "{names[0]}", "b": "{names[1]}"}}}}'
    (cached / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    said = refusal(cached)
    assert names[1] in said
    assert "attention-visualizer model org/tiny --download" in said


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
