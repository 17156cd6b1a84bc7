"""Tests that incomplete or unsafe folders are rejected with a message before they are loaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from visualizer.errors import InputError
from visualizer.models.model_folder import (
    CONFIG_FILE,
    INDEX_FILE,
    MAX_VOCABULARY_BYTES,
    model_name,
    read_model_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = "model.safetensors"


ODD_ENDS = '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-Infinity, 8]}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "small"
    made.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (made / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")
    save_file({"one": np.ones((3, 4), np.float32), "two": np.ones(5, np.float16)}, made / WEIGHTS)
    return made


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_model_folder(folder)
    assert caught.value.field == "model"
    return caught.value.sentence


def test_a_complete_folder_is_described(folder: Path) -> None:
    found = read_model_folder(folder)
    assert (found.name, found.kind, found.architectures) == (
        "small",
        "llama",
        ("LlamaForCausalLM",),
    )
    assert found.parameters == 17
    assert found.bytes == (folder / WEIGHTS).stat().st_size
    assert not found.has_tokenizer
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert read_model_folder(folder).has_tokenizer


def test_a_cached_model_is_named_after_its_repository(tmp_path: Path) -> None:
    place = tmp_path / "models--someone--small-model" / "snapshots" / "0123abc"
    place.mkdir(parents=True)
    assert model_name(place) == "someone/small-model"


def test_a_missing_folder_or_config_is_reported(folder: Path, tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing") == f"Folder not found: “{tmp_path / 'nothing'}”."
    (folder / CONFIG_FILE).unlink()
    assert refusal(folder) == "“small” is not a model folder: it has no config.json."


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "“config.json” is damaged: it is not valid JSON."),
        ("[" * 100_000, "“config.json” is damaged: it is not valid JSON."),
        ("[]", "config.json is invalid: it must contain a JSON object."),
        ('{"auto_map": {}}', "requires custom code (auto_map), which is never run"),
    ],
    ids=["cut", "deep", "list", "code"],
)
def test_a_damaged_config_or_one_with_custom_code_is_rejected(
    folder: Path, config: str, sentence: str
) -> None:
    (folder / CONFIG_FILE).write_text(config, encoding="utf-8")
    assert sentence in refusal(folder)


def test_invalid_values_in_a_config_are_ignored(folder: Path) -> None:
    config = {"model_type": 3, "architectures": ["A", None, 5]}
    (folder / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")
    found = read_model_folder(folder)
    assert (found.kind, found.architectures) == ("", ("A",))


def test_pickled_weights_are_rejected_with_instructions(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    said = refusal(folder)
    assert "pytorch_model.bin is not opened because loading this format can run code." in said
    assert "save_pretrained" in said
    (folder / "pytorch_model.bin").unlink()
    assert "model.safetensors is missing" in refusal(folder)


@pytest.mark.parametrize("left", [0, 5, 8, 40, -1])
def test_truncated_weights_are_rejected(folder: Path, left: int) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:left])
    assert refusal(folder).startswith("model.safetensors is damaged")


@pytest.mark.parametrize(
    "header",
    [ODD_ENDS, "{", "[]", '{"a": 1}', '{"a": {"dtype": "F32"}}', '{"a": {"data_offsets": [0, 8]}}'],
)
def test_weights_with_a_damaged_header_are_rejected(folder: Path, header: str) -> None:
    coded = header.encode()
    (folder / WEIGHTS).write_bytes(len(coded).to_bytes(8, "little") + coded + bytes(8))
    assert refusal(folder).startswith("model.safetensors is damaged")


def test_sharded_weights_must_be_complete(folder: Path) -> None:
    names = ["part-1.safetensors", "part-2.safetensors"]
    (folder / WEIGHTS).rename(folder / names[0])
    index = {"weight_map": dict(zip(("one", "two"), names, strict=True))}
    (folder / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")
    assert refusal(folder).startswith("1 of 2 weights files are missing, for example part-2.")
    save_file({"three": np.ones(3, np.float32)}, folder / names[1])
    assert read_model_folder(folder).parameters == 20


@pytest.mark.parametrize(
    "name", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "x.bin"]
)
def test_an_index_may_name_only_files_in_its_folder(folder: Path, name: str) -> None:
    (folder / WEIGHTS).unlink()
    (folder / INDEX_FILE).write_text(json.dumps({"weight_map": {"one": name}}), encoding="utf-8")
    assert f"names “{name}”, which is not a valid file name" in refusal(folder)


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": {"a": 1}}'])
def test_a_damaged_index_is_rejected(folder: Path, index: str) -> None:
    (folder / WEIGHTS).unlink()
    (folder / INDEX_FILE).write_text(index, encoding="utf-8")
    assert "its weight_map is missing or invalid" in refusal(folder)


def test_a_tokenizer_with_custom_code_is_rejected(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"auto_map": {}}', encoding="utf-8")
    assert "tokenizer_config.json requires custom code" in refusal(folder)


def test_weights_files_with_custom_names_are_rejected(folder: Path) -> None:
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps(config | {"transformers_weights": "x.bin"}))
    assert (
        refusal(folder)
        == "config.json names weights files other than model.safetensors, which is not supported."
    )


def test_only_the_weights_that_are_loaded_are_counted(folder: Path) -> None:
    save_file({"more": np.ones(100, np.float32)}, folder / "consolidated.safetensors")
    index = {"weight_map": {"more": "consolidated.safetensors"}}
    (folder / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")
    assert read_model_folder(folder).parameters == 17


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**9},
        {"n_layer": 1_001},
        {"text_config": {"num_layers": 5_000}},
        {"block_sizes": [600, 600]},
    ],
)
def test_a_config_with_too_many_layers_is_rejected(folder: Path, config: dict[str, object]) -> None:
    (folder / CONFIG_FILE).write_text(
        json.dumps({"model_type": "llama", **config}), encoding="utf-8"
    )
    assert "must be at most 1,000, not " in refusal(folder)


def test_a_tokenizer_file_that_is_too_large_is_rejected(folder: Path) -> None:
    with (folder / "tokenizer.json").open("wb") as file:
        file.truncate(MAX_VOCABULARY_BYTES + 1)
    assert "“tokenizer.json” is too large (64.0 MiB; the limit is 64.0 MiB)" in refusal(folder)


def test_the_fingerprint_depends_on_config_and_weights(folder: Path) -> None:
    first = read_model_folder(folder).fingerprint
    assert read_model_folder(folder).fingerprint == first
    assert len(first) == 64
    save_file(
        {"one": np.zeros((3, 4), np.float32), "two": np.ones(5, np.float16)}, folder / WEIGHTS
    )
    second = read_model_folder(folder).fingerprint
    (folder / CONFIG_FILE).write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    assert len({first, second, read_model_folder(folder).fingerprint}) == 3
