"""Tests opening a model and running it on texts, and the error messages."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import sys
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file, save_file

from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.models import model_loading
from visualizer.models.model_folder import parameter_bytes, read_model_folder
from visualizer.models.model_ranks import ModelProcessGroup, Parallelism
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.optional_packages import missing_package_message
from visualizer.progress import CancelledError
from visualizer.session.model_opening import open_model_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Machine

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat"


@pytest.fixture
def folder(tiny_model_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder, which a test may damage."""
    return shutil.copytree(tiny_model_folder, tmp_path / "tiny")


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> OpenedModel:
    return open_model(tiny_model_folder, Device.CPU)


@pytest.fixture
def without_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    asked: list[object] = []

    def refuse(self: object, address: object, *more: object) -> None:
        asked.append(address)
        raise OSError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    yield asked
    assert asked == []


def refusal(field: str, given: Any, *more: Any) -> str:
    with pytest.raises(InputError) as caught:
        given(*more)
    assert caught.value.field == field
    return caught.value.sentence


def test_every_layer_is_recorded_with_the_tokens_of_the_tokenizer(model: OpenedModel) -> None:
    (found,) = model.attend(TEXT)
    assert found.run.texts == (("<s>", "the", "cat", "sat", "on", "the", "mat"),)
    assert found.group.layers == (0, 1)
    trace = found.run.trace
    assert trace.axes == ("layer",)
    assert trace.read("weights").shape == (2, 4, 7, 7)
    assert trace.names == (
        *("residual", "normed", "projected_queries", "projected_keys", "queries", "keys"),
        *("values", "scores", "scaled", "masked", "weights", "context", "concat", "output"),
        *("attended", "normed_attended", "gate", "up", "hidden", "feed_forward", "result"),
    )
    assert found.run.notices == ()
    assert found.run.source_display_name == "tiny"


def test_a_pair_of_texts_has_the_tokens_of_both(model: OpenedModel) -> None:
    (found,) = model.attend("the cat", "a dog")
    assert found.run.texts == (("<s>", "the", "cat", "</s>", "a", "dog"),)


def test_encoder_decoder_and_cross_attention_are_separate_runs(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "pair", "bart"))
    encoder, decoder, across = model.attend("the cat sat", "a dog ran")
    tokens = ("<s>", "the", "cat", "sat")
    assert encoder.run.texts == (tokens,)
    assert decoder.run.texts[0][1:] == ("a", "dog", "ran")
    assert across.run.texts == decoder.run.texts
    assert across.run.key_tokens == tokens
    assert across.run.trace.names == (
        *("queries", "keys", "values", "scores", "scaled", "weights", "context"),
    )
    np.testing.assert_allclose(across.run.trace.read("weights").sum(-1), 1, atol=1e-6)


def test_opening_and_running_a_model_does_not_use_the_network(
    tiny_model_folder: Path, without_network: list[object]
) -> None:
    assert open_model(tiny_model_folder).attend(TEXT)
    assert without_network == []


def test_the_weights_have_the_requested_dtype(tiny_model_folder: Path) -> None:
    model = open_model(tiny_model_folder, Device.CPU, ModelDtype.FLOAT64)
    assert next(model.model.parameters()).dtype is torch.float64


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_rejected(model: OpenedModel, text: str) -> None:
    said = refusal("text", model.attend, text)
    assert said == "The text is empty. Enter a word or a sentence."


def test_a_text_longer_than_the_position_limit_is_rejected(model: OpenedModel) -> None:
    said = refusal("text", model.attend, "the cat " * 10_000)
    assert said == "The text has 20,001 tokens; tiny supports at most 67. Use a shorter text."


def test_weights_that_do_not_fit_in_memory_are_rejected(
    model: OpenedModel, machine: Machine
) -> None:
    machine.set_free_bytes(1000)
    assert "2 layers × 4 heads × 7 tokens need" in refusal("text", model.attend, TEXT)


def test_a_model_that_does_not_fit_in_memory_is_rejected(folder: Path, machine: Machine) -> None:
    machine.set_free_bytes(1000)
    said = refusal("model", open_model, folder, Device.CPU)
    assert said.startswith("tiny needs 0.0 GiB of memory as float32; ")


@pytest.fixture
def eight_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that this process is one of eight ranks of a model."""

    class EightRanks(ModelProcessGroup):
        count = 8

    monkeypatch.setenv("WORLD_SIZE", str(EightRanks.count))
    monkeypatch.setattr(model_loading, "ModelRank", lambda *given: EightRanks())


@pytest.mark.usefixtures("eight_ranks")
def test_more_processes_than_layers_are_rejected(tiny_model_folder: Path) -> None:
    with pytest.raises(InputError, match=r"has only 2 layers for 8 processes\. Start at most 2"):
        open_model(tiny_model_folder, Device.CPU, parallelism=Parallelism.PIPELINE)


def test_heads_that_cannot_be_divided_are_rejected_before_connecting(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    said = r"has 2 key heads per layer, which cannot be divided evenly among 3 processes\."
    with pytest.raises(InputError, match=said):
        open_model(tiny_model_folder, Device.CPU, parallelism=Parallelism.TENSOR)


@pytest.mark.usefixtures("eight_ranks")
def test_processes_share_the_memory_of_the_machine(tmp_path: Path, machine: Machine) -> None:
    saved = save_tiny_model(tmp_path / "wide", num_attention_heads=8, num_key_value_heads=8)
    needed = parameter_bytes(read_model_folder(saved).parameters, ModelDtype.FLOAT32)
    machine.set_free_bytes(needed)
    with pytest.raises(InputError, match="is available"):
        open_model(saved, Device.CPU, parallelism=Parallelism.TENSOR)


def test_a_model_without_a_tokenizer_cannot_process_text(folder: Path) -> None:
    for each in folder.glob("tokenizer*"):
        each.unlink()
    said = refusal("model", open_model(folder).attend, TEXT)
    assert said == "tiny has no tokenizer, so it cannot process text."


def test_a_damaged_tokenizer_is_reported(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    assert refusal("model", open_model, folder) == "Cannot load the tokenizer of tiny."


def test_an_unknown_architecture_is_rejected(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard"}))
    said = refusal("model", open_model, folder)
    assert "has an architecture (“unheard”) that is not supported by" in said


def test_missing_and_mismatched_weights_are_rejected(folder: Path) -> None:
    held = load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file({**held, name: torch.zeros(8, 8)}, folder / "model.safetensors")
    assert f"“{name}” is 8 × 8 in the files, but 32 × 32" in refusal("model", open_model, folder)
    del held[name]
    save_file(held, folder / "model.safetensors")
    said = refusal("model", open_model, folder)
    assert f"“{name}” (32 × 32) is missing" in said
    assert "1 of 21 tensors" in said


def test_a_model_without_attention_is_rejected(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "mamba", "mamba", state_size=4))
    said = refusal("model", model.attend, TEXT)
    assert said == "No attention could be recorded in mamba."


def test_a_missing_transformers_package_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    said = refusal("package", open_model, folder)
    assert said == missing_package_message("transformers", "Opening models")


def test_unsuitable_class_names_in_a_config_are_ignored(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    named = ["AutoTokenizer", "RagRetriever", "BertModel"]
    (folder / "config.json").write_text(json.dumps(config | {"architectures": named}))
    assert type(open_model(folder).model).__name__ == "LlamaModel"


def test_a_failure_of_the_model_is_reported_for_the_text(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "roberta", "roberta"))
    said = refusal("text", model.attend, "the cat " * 33)  # positions start after padding
    assert said.startswith("roberta failed on this text: ")


def test_an_empty_second_text_is_ignored(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "bert", "bert"))
    assert (
        model.encode_inputs("the cat", "")[1]
        == model.encode_inputs("the cat")[1]
        == ("<s>", "the", "cat")
    )


def test_a_decoder_text_that_is_too_long_is_rejected(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "pair", "bart"))
    said = refusal("second", model.attend, "the cat", "a dog " * 100)
    assert said == "The text has 201 tokens; pair supports at most 67. Use a shorter text."


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
            opening(device=Device.CPU, dtype=ModelDtype.FLOAT32, progress=stop_at_half)
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
        assert parameter_bytes(found.parameters, ModelDtype.FLOAT64) == 8 * found.parameters
    assert not read_model_folder(tmp_path / "llama", has_fingerprint=False).fingerprint
