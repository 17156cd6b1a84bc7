"""Tests that a model with layers on disk computes the values of the same model in memory."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples, others_slow
from tests.support.large_llama import save_large_llama
from tests.support.memory_groups import PROCESSES, memory_group
from tests.support.tiny_models import (
    BY_THEMSELVES,
    DECODERS,
    ENCODERS,
    PAIRS,
    WORDS,
    save_tiny_model,
    tiny_model,
)
from tests.support.tiny_vision_models import picture, save_vision_model
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.language.sampling import SamplingSettings
from visualizer.models.disk_layers import LAYOUT_MISMATCH
from visualizer.models.disk_streaming_estimate import SEVERAL_STACKS_REASON, estimate_disk_streaming
from visualizer.models.forward_runner import DISK_STAGES_NOTICE, ONE_PASS_FROM_DISK_NOTICE
from visualizer.models.head_edits import context_edits
from visualizer.models.kv_cache_generation import generate
from visualizer.models.logit_attribution import logit_lens, logit_parts
from visualizer.models.model_folder import INDEX_FILE, read_model_folder
from visualizer.models.model_ranks import Parallelism
from visualizer.models.model_source import HeadEdit, HeadEditKind
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.progress import CancelledError, cancel_when, report_progress_to

if TYPE_CHECKING:
    from tests.conftest import Machine

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat and a dog ran to a log ."
REFUSED = frozenset({
    "mixtral", "qwen2_moe", "qwen3_moe", "gemma3n_text", "olmoe", "glm4_moe", "deepseek_v2",
    "deepseek_v3", "deepseek_v32", "qwen3_next", "jamba", "afmoe", "albert", "xlnet", *PAIRS,
})  # fmt: skip
"""Architectures with several stacks, shared layers, or experts with a special layout."""
KINDS = ("llama", "qwen3", "gemma3_text", "gpt2", "bert")


def both(folder: Path, dtype: ModelDtype = ModelDtype.FLOAT32) -> tuple[OpenedModel, OpenedModel]:
    """Open a model in memory and from disk."""
    plain = open_model(folder, Device.CPU, dtype)
    streamed = open_model(folder, Device.CPU, dtype, is_from_disk=True)
    assert_not_in_memory(streamed)
    return plain, streamed


def assert_not_in_memory(streamed: OpenedModel) -> None:
    assert streamed.on_disk
    layers = streamed.on_disk.layers
    assert all(weight.is_meta for layer in layers for weight in layer.parameters())


def assert_same_runs(plain: Any, streamed: Any) -> None:
    assert len(plain) == len(streamed) > 0
    for one, other in zip(plain, streamed, strict=True):
        assert one.group.layers == other.group.layers
        for left, right in zip(one.group.calls, other.group.calls, strict=True):
            assert (left.read_weights() - right.read_weights()).abs().max() == 0.0
            for name in ("queries", "keys", "values", "context"):
                first, second = getattr(left, name), getattr(right, name)
                assert first is second is None or (first - second).abs().max() == 0.0, name


@pytest.mark.parametrize("kind", KINDS)
def test_attention_equals_that_of_the_model_in_memory(tmp_path: Path, kind: str) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / kind, kind))
    assert_same_runs(plain.attend(TEXT), streamed.attend(TEXT))
    assert_not_in_memory(streamed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*DECODERS, *ENCODERS, *PAIRS, *BY_THEMSELVES])
def test_every_architecture_yields_the_same_values_or_is_rejected(
    tmp_path: Path, kind: str
) -> None:
    folder = save_tiny_model(tmp_path / "m", kind)
    wanted = open_model(folder, Device.CPU).attend(TEXT)
    if kind in REFUSED:
        with pytest.raises(InputError, match="cannot be run from disk"):
            open_model(folder, Device.CPU, is_from_disk=True)
        return
    streamed = open_model(folder, Device.CPU, is_from_disk=True)
    assert_same_runs(wanted, streamed.attend(TEXT))


@pytest.mark.parametrize("kind", others_slow(KINDS[:3]))
def test_analyses_equal_those_of_the_model_in_memory(tmp_path: Path, kind: str) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / kind, kind))
    edits, cuts = {(0, 1): 0.0, (1, 2): 0.5}, {(1, 0): [(3, 1)]}
    seen = [model.read(TEXT, edits, cuts) for model in (plain, streamed)]
    assert (seen[0].next_token - seen[1].next_token).abs().max() == 0.0  # type: ignore[operator]
    for layer, change in seen[0].changes.items():
        np.testing.assert_array_equal(change, seen[1].changes[layer])
    heads = [(0, 0), (1, 3)]
    without = [model.ablated_log_probabilities(TEXT, heads) for model in (plain, streamed)]
    assert (without[0] - without[1]).abs().max() == 0.0
    lens = [logit_lens(model, TEXT, 3) for model in (plain, streamed)]
    np.testing.assert_array_equal(lens[0].numbers, lens[1].numbers)
    np.testing.assert_array_equal(lens[0].probabilities, lens[1].probabilities)
    words = [
        generate(model, "the cat", 4, SamplingSettings(), 0).text for model in (plain, streamed)
    ]
    assert words[0] == words[1]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_logit_parts_equal_those_of_the_model_in_memory(tmp_path: Path, kind: str) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / "m", kind))
    one, other = (logit_parts(model, TEXT) for model in (plain, streamed))
    np.testing.assert_array_equal(one.heads, other.heads)
    np.testing.assert_array_equal(one.rest, other.rest)
    assert (one.logit, one.embedding, one.bias) == (other.logit, other.embedding, other.bias)
    assert_not_in_memory(streamed)


def test_patched_heads_have_the_same_effect_as_in_memory(tmp_path: Path) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / "m", "llama"))
    swapped = HeadEdit(
        0, 1, HeadEditKind.PATCHED, text="a dog ran to the log and a cat sat on . the mat"
    )
    logs = []
    for model in (plain, streamed):
        edits = context_edits(model, TEXT, (swapped,))
        logs.append(model.next_token_log_probabilities(TEXT, edits))
    assert (logs[0] - logs[1]).abs().max() == 0.0


def test_tiles_of_a_long_text_equal_those_of_the_model_in_memory(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama")
    plain, streamed = both(folder)
    plain.long_texts.reads_in_chunks = False  # chunks have different rounding errors
    plain.long_texts.max_weight_bytes = streamed.long_texts.max_weight_bytes = 0
    seen = [model.read(TEXT, by_blocks=True) for model in (plain, streamed)]
    assert seen[0].next_token is not None
    assert (seen[0].next_token - seen[1].next_token).abs().max() == 0.0  # type: ignore[operator]
    weights = [np.asarray(each.runs[0].run.trace.read("weights")) for each in seen]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert ONE_PASS_FROM_DISK_NOTICE in seen[1].runs[0].notices[-1]


def test_an_image_model_can_run_from_disk(tmp_path: Path) -> None:
    plain, streamed = both(save_vision_model(tmp_path / "m", "vit"))
    picture(tmp_path / "a.png")
    runs = [model.attend_image(tmp_path / "a.png") for model in (plain, streamed)]
    assert_same_runs(*runs)


def test_float64_is_computed_in_float64(tmp_path: Path) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / "m", "llama"), ModelDtype.FLOAT64)
    assert_same_runs(plain.attend(TEXT), streamed.attend(TEXT))


def test_sharded_weights_of_another_dtype_are_supported(tmp_path: Path) -> None:
    tiny_model("llama").bfloat16().save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    folder = save_tiny_model(tmp_path / "m", "llama")
    (folder / "model.safetensors").unlink()
    for file in (tmp_path / "parts").iterdir():
        shutil.copy(file, folder)
    assert (folder / INDEX_FILE).exists()
    plain, streamed = both(folder)
    assert_same_runs(plain.attend(TEXT), streamed.attend(TEXT))


def test_stages_around_attention_are_omitted_with_a_notice(tmp_path: Path) -> None:
    _, streamed = both(save_tiny_model(tmp_path / "m", "llama"))
    (found,) = streamed.attend(TEXT)
    assert DISK_STAGES_NOTICE in found.notices


def test_progress_counts_layers(tmp_path: Path) -> None:
    _, streamed = both(save_tiny_model(tmp_path / "m", "llama", num_hidden_layers=3))
    told: list[tuple[int, int]] = []
    with report_progress_to(lambda done, of: told.append((done, of))):
        streamed.attend(TEXT)
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_a_run_is_cancelled_between_layers(tmp_path: Path) -> None:
    plain, streamed = both(save_tiny_model(tmp_path / "m", "llama"))
    told: list[int] = []
    with (
        report_progress_to(lambda done, of: told.append(done)),
        cancel_when(lambda: 0 in told),
        pytest.raises(CancelledError),
    ):
        streamed.attend(TEXT)
    assert told == [0]
    assert_not_in_memory(streamed)
    assert_same_runs(plain.attend(TEXT), streamed.attend(TEXT))


@pytest.mark.parametrize("spoil", ["removed", "rewritten", "cut"])
def test_files_that_change_between_layers_are_rejected(tmp_path: Path, spoil: str) -> None:
    _, streamed = both(save_tiny_model(tmp_path / "m", "llama"))
    file = tmp_path / "m" / "model.safetensors"

    def change(done: int, of: int) -> None:
        if done != 1:
            return
        if spoil == "removed":
            shutil.rmtree(tmp_path / "m")
        elif spoil == "rewritten":
            save_tiny_model(tmp_path / "m", "llama", hidden_size=64)
        else:
            with file.open("r+b") as opened:
                opened.truncate(2_000)

    with report_progress_to(change), pytest.raises(InputError) as found:
        streamed.attend(TEXT)
    assert found.value.field == "model"
    assert "changed or removed" in found.value.sentence
    assert_not_in_memory(streamed)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("mixtral", LAYOUT_MISMATCH), ("t5", SEVERAL_STACKS_REASON), ("bart", SEVERAL_STACKS_REASON),
     ("albert", SEVERAL_STACKS_REASON)],
)  # fmt: skip
def test_models_that_cannot_be_streamed_are_rejected(tmp_path: Path, kind: str, why: str) -> None:
    folder = save_tiny_model(tmp_path / "m", kind)
    with pytest.raises(InputError, match="cannot be run from disk") as found:
        open_model(folder, Device.CPU, is_from_disk=True)
    assert why in found.value.sentence
    assert [*tmp_path.iterdir()] == [folder]  # no files were written


def test_quantized_and_split_models_are_rejected(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama")
    with pytest.raises(InputError, match="split"):
        open_model(folder, parallelism=Parallelism.PIPELINE, is_from_disk=True)
    with pytest.raises(InputError, match="CPU only"):
        open_model(folder, Device.CUDA, is_from_disk=True)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="quantized"):
        open_model(folder, Device.CPU, is_from_disk=True)


def test_pickled_weights_are_rejected(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="can run code"):
        open_model(folder, Device.CPU, is_from_disk=True)


def test_only_a_model_larger_than_memory_needs_the_disk(tmp_path: Path, machine: Machine) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama", num_hidden_layers=8)
    needed = 4 * read_model_folder(folder).parameters
    machine.set_free_bytes(needed)
    with pytest.raises(InputError, match="is available"):
        open_model(folder, Device.CPU)
    assert open_model(folder, Device.CPU, is_from_disk=True).attend(TEXT)
    machine.set_free_bytes(needed // 20)
    with pytest.raises(InputError, match="is available"):
        open_model(folder, Device.CPU, is_from_disk=True)


def test_a_closed_model_is_opened_from_disk_again(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama")
    source, model = open_model_folder(folder, Device.CPU, is_from_disk=True)
    del model
    gc.collect()
    run = read_text(source, TEXT, Device.CPU)
    assert DISK_STAGES_NOTICE in run.notices
    wanted = open_model(folder, Device.CPU).attend(TEXT)[0].run
    np.testing.assert_array_equal(run.trace.read("weights"), wanted.trace.read("weights"))
    del run
    gc.collect()
    source, _model = open_model_folder(folder, Device.CPU)
    assert DISK_STAGES_NOTICE not in read_text(source, TEXT, Device.CPU).notices


def test_the_estimate_counts_bytes_read_and_held(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "m", "llama")
    known = read_model_folder(folder)
    found = estimate_disk_streaming(known, ModelDtype.FLOAT32)
    model = tiny_model("llama")
    layers = [sum(each.numel() for each in layer.parameters()) for layer in model.model.layers]
    outside = known.parameters - sum(layers)
    assert (found.layers, found.bytes) == (2, 4 * sum(layers))
    assert found.memory == 4 * (outside + max(layers))
    assert found.seconds > 0
    assert "2 layers" in found.description


@given(st.integers(1, 4), st.booleans(), st.sampled_from(["20KB", "1GB"]))
@example(1, False, "1GB")
@example(2, True, "1GB")
@examples(0.1)
def test_any_small_llama_can_run_from_disk(layers: int, is_tied: bool, part: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "m"
        settings = {"num_hidden_layers": layers, "tie_word_embeddings": is_tied}
        save_tiny_model(folder, "llama", **settings)
        tiny_model("llama", **settings).save_pretrained(folder, max_shard_size=part)
        plain, streamed = both(folder)
        assert_same_runs(plain.attend(TEXT), streamed.attend(TEXT))


MEMORY_LIMIT_BYTES = 700 * 10**6
"""Memory limit, in bytes, for the process and its tokenizer process, including libraries."""
TIMES = 4
LARGE_TEXT = " ".join((WORDS * 6)[:64])


def run_limited_model(folder: Path, file: Path, *group: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.support.memory_limited_model"]
    return subprocess.run(
        [*program, str(folder), LARGE_TEXT, str(file), *group],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.release
def test_a_model_larger_than_the_memory_runs_from_disk(tmp_path: Path) -> None:
    with memory_group(MEMORY_LIMIT_BYTES) as group:
        taken = save_large_llama(tmp_path / "m", TIMES * MEMORY_LIMIT_BYTES)
        assert taken >= TIMES * MEMORY_LIMIT_BYTES
        limited = run_limited_model(
            tmp_path / "m", tmp_path / "limited.npz", str(group / PROCESSES)
        )
        assert limited.returncode == 0, limited.stderr
    plain = run_limited_model(tmp_path / "m", tmp_path / "plain.npz")
    assert plain.returncode == 0, plain.stderr
    with np.load(tmp_path / "plain.npz") as wanted, np.load(tmp_path / "limited.npz") as found:
        assert {*wanted} == {*found}
        assert len(wanted) > 20
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name])
            assert np.isfinite(wanted[name]).all()
