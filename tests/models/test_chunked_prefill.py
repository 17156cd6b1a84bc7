"""Tests that processing a text in chunks gives the values of one pass and can be cancelled."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.support.examples import others_slow
from tests.support.tiny_models import WORDS, save_tiny_model, tiny_model
from visualizer.api.model_api import Model
from visualizer.attention.spec import Device, MaskKind
from visualizer.errors import InputError
from visualizer.models import (
    chunked_prefill,
    long_text_recorder,
    long_text_runner,
    preallocated_cache,
)
from visualizer.models.attention_recorder import record_attention
from visualizer.models.chunked_prefill import prefill_in_chunks, supports_chunked_prefill
from visualizer.models.long_text_recorder import create_long_text_runs, record_long_text
from visualizer.models.long_text_vectors import allocate_vectors
from visualizer.models.model_source import HeadEdit, HeadEditKind
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.progress import CancelledError, cancel_when, report_progress_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from visualizer.models.long_text_recorder import LongTextCall

TOKENS, CHUNK = 60, 16
TEXT = " ".join(WORDS * 4)
VECTORS = ("queries", "keys", "values", "logarithms")
KINDS = (
    "llama", "gemma2", "gpt_oss", "gpt2", "deepseek_v3", "qwen3", "gemma3_text", "mistral",
    "qwen2_moe",
)  # fmt: skip


def given() -> dict[str, torch.Tensor]:
    ids = (torch.arange(TOKENS) * 7 % 50 + 3)[None]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def run_of(model: Any) -> Callable[..., Any]:
    def run(given: Any) -> Any:
        try:
            return model(**given)
        except InputError:
            raise
        except Exception as error:
            raise InputError("text", "cannot be read") from error

    return run


def in_chunks(model: Any, chunk: int = CHUNK) -> tuple[list[LongTextCall], Any]:
    with torch.inference_mode():
        return prefill_in_chunks(model, run_of(model), given(), {}, layers=2, chunk=chunk)


@pytest.mark.parametrize("kind", others_slow(KINDS, 5))
def test_values_equal_those_of_one_pass_and_of_eager_attention(kind: str) -> None:
    model = tiny_model(kind)
    with torch.inference_mode():
        assert supports_chunked_prefill(model, run_of(model), given())
        with record_attention(model) as own:
            wanted = model(**given())
        with record_long_text(model) as whole:
            model(**given(), use_cache=False)
    calls, result = in_chunks(model)
    torch.testing.assert_close(result[0][:, -1], wanted[0][:, -1], rtol=0, atol=1e-5)
    for one, other in zip(calls, whole, strict=True):
        assert one.module == other.module
        assert one.vectors.mask == other.vectors.mask
        for name in VECTORS:
            found, expected = getattr(one.vectors, name), getattr(other.vectors, name)
            size = float(expected.abs().max().clamp(min=1))
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * size)
    (found,) = create_long_text_runs(calls, kind, tuple(map(str, range(TOKENS))), "CPU")
    for layer, call in enumerate(own):
        weights = found.run.trace.read("weights", (layer,))
        assert np.abs(weights - call.weights[0].numpy()).max() <= 1e-6


@pytest.mark.parametrize("window", [5, 47, 70])
def test_a_window_may_be_longer_than_a_chunk(window: int) -> None:
    model = tiny_model("mistral", sliding_window=window)
    calls, _ = in_chunks(model)
    with torch.inference_mode(), record_attention(model) as own:
        model(**given())
    is_seen = window < TOKENS
    assert {call.vectors.mask.mask for call in calls} == {
        MaskKind.WINDOW if is_seen else MaskKind.CAUSAL
    }
    assert {call.vectors.mask.window for call in calls} == {window if is_seen else 0}
    (found,) = create_long_text_runs(calls, "mistral", tuple(map(str, range(TOKENS))), "CPU")
    for layer, call in enumerate(own):
        weights = found.run.trace.read("weights", (layer,))
        assert np.abs(weights - call.weights[0].numpy()).max() <= 1e-6


def test_values_in_float64_are_more_precise() -> None:
    model = tiny_model("llama").double()
    calls, _ = in_chunks(model)
    with torch.inference_mode(), record_long_text(model) as whole:
        model(**given(), use_cache=False)
    for one, other in zip(calls, whole, strict=True):
        found, expected = one.vectors.logarithms, other.vectors.logarithms
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_wrong_kernel_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    flash = long_text_recorder.compute_flash_attention

    def without_past(call: long_text_recorder.CallVectors, keys: slice, **more: Any) -> Any:
        output, logarithms = flash(call, keys, **more)
        return output, logarithms - float(keys == slice(0, call.start))

    monkeypatch.setattr(long_text_recorder, "compute_flash_attention", without_past)
    model = tiny_model("llama")
    calls, _ = in_chunks(model)
    with torch.inference_mode(), record_long_text(model) as whole:
        model(**given(), use_cache=False)
    for one, other in zip(calls, whole, strict=True):
        found, expected = one.vectors.logarithms, other.vectors.logarithms
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_keys_that_change_between_chunks_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    update = preallocated_cache.PreallocatedCacheLayer.update

    def turned(self: Any, keys: torch.Tensor, values: torch.Tensor, *more: Any) -> Any:
        if self.is_initialized:
            self._whole[0][:, :, :CHUNK] *= 1.5
        return update(self, keys, values, *more)

    monkeypatch.setattr(preallocated_cache.PreallocatedCacheLayer, "update", turned)
    model = tiny_model("llama")
    with pytest.raises(UnsupportedAttentionError, match="differs between chunks"):
        in_chunks(model)
    with torch.inference_mode():
        assert not supports_chunked_prefill(model, run_of(model), given())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bert", {}),
        ("modernbert", {}),
        ("qwen3_next", {}),
        ("bloom", {}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}),
    ],
)
def test_other_models_do_not_support_chunks(kind: str, settings: dict[str, Any]) -> None:
    model = tiny_model(kind, **settings)
    with torch.inference_mode():
        assert not supports_chunked_prefill(model, run_of(model), given())


def test_vectors_are_stored_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.Tensor] = []

    def counted(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        made.append(allocate_vectors(shape, dtype))
        return made[-1]

    for module in (long_text_recorder, preallocated_cache):
        monkeypatch.setattr(module, "allocate_vectors", counted)
    calls, _ = in_chunks(tiny_model("llama"))
    kept = [getattr(call.vectors, name) for call in calls for name in VECTORS]
    assert {each.data_ptr() for each in kept} == {each.data_ptr() for each in made}
    assert sum(each.nbytes for each in kept) == sum(each.nbytes for each in made)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a model that processes every text in many chunks."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(chunked_prefill, "TOKENS_PER_CHUNK", CHUNK)
    return save_tiny_model(tmp_path / "tiny", max_position_embeddings=256)


def test_progress_counts_chunks_and_layers(folder: Path) -> None:
    source, _ = open_model_folder(folder, Device.CPU)
    told: list[tuple[int, int]] = []
    with report_progress_to(lambda done, of: told.append((done, of))):
        run = read_text(source, TEXT, Device.CPU)
    assert run.trace.is_blockwise
    assert told == [(done, 49) for done in (8, 16, 24, 32, 40, 48, 48, 49)]


def test_edited_and_unedited_passes_share_the_progress(folder: Path) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    told: list[tuple[int, int]] = []
    off = replace(source, edits=(HeadEdit(0, 1, HeadEditKind.OFF),))
    with report_progress_to(lambda done, of: told.append((done, of))):
        run = read_text(off, TEXT, Device.CPU)
    assert told == sorted(told)
    assert told[-1] == (49, 49)
    assert len(told) == 16
    assert run.reading is not None
    logs = model.next_token_log_probabilities(TEXT, {(0, 1): 0.0})
    plain = model.next_token_log_probabilities(TEXT)
    found = max(run.reading.next_tokens, key=lambda each: each.probability)
    assert found.probability == pytest.approx(float(logs.max().exp()), abs=1e-6)
    of_all = max(each.probability_of_all_heads for each in run.reading.next_tokens)
    assert of_all == pytest.approx(float(plain.max().exp()), abs=1e-6)


def test_cancelling_within_a_chunk_releases_the_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    read_text(source, "the cat", Device.CPU)
    made: list[weakref.ref[torch.Tensor]] = []
    done: list[int] = []

    def watched(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        found = allocate_vectors(shape, dtype)
        made.append(weakref.ref(found))
        return found

    for module in (long_text_recorder, preallocated_cache):
        monkeypatch.setattr(module, "allocate_vectors", watched)
    with (
        report_progress_to(lambda tokens, _: done.append(tokens)),
        cancel_when(lambda: done[-1:] == [24]),
        pytest.raises(CancelledError) as stopped,
    ):
        read_text(source, TEXT, Device.CPU)
    assert done == [8, 16, 24]
    assert len(made) == 8
    stopped.value.with_traceback(None)
    del stopped
    assert [one() for one in made] == [None] * 8
    assert model.model.config._attn_implementation == "eager"
    assert read_text(source, TEXT, Device.CPU).trace.is_blockwise


def test_progress_of_one_pass_counts_layers(tmp_path: Path, folder: Path) -> None:
    bert = save_tiny_model(tmp_path / "bert", "bert", max_position_embeddings=256)
    source, _ = open_model_folder(bert, Device.CPU)
    told: list[tuple[int, int]] = []
    with report_progress_to(lambda done, of: told.append((done, of))):
        run = read_text(source, TEXT, Device.CPU)
    assert run.trace.is_blockwise
    assert told == [(24, 49), (49, 49)]


@pytest.mark.usefixtures("folder")
def test_a_decoder_processed_in_one_pass_has_a_notice(tmp_path: Path) -> None:
    said = {}
    for number, kind in enumerate(("default", "dynamic")):
        rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
        place = save_tiny_model(
            tmp_path / str(number), max_position_embeddings=256, rope_parameters=rope
        )
        source, _ = open_model_folder(place, Device.CPU)
        said[kind] = " ".join(read_text(source, TEXT, Device.CPU).notices)
    assert "one pass" in said["dynamic"]
    assert "one pass" not in said["default"]


def test_a_mismatch_in_a_later_chunk_leads_to_one_pass(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    update = preallocated_cache.PreallocatedCacheLayer.update

    def forgetful(self: Any, keys: torch.Tensor, values: torch.Tensor, *more: Any) -> Any:
        if self.is_initialized and self.get_seq_length() > 2 * CHUNK:
            self._whole[0][:, :, :CHUNK] *= 1.5
        return update(self, keys, values, *more)

    monkeypatch.setattr(preallocated_cache.PreallocatedCacheLayer, "update", forgetful)
    run = read_text(source, TEXT, Device.CPU)
    assert run.trace.is_blockwise
    assert "one pass" in run.notices[0]
    (whole,) = model.attend(TEXT)
    apart = run.trace.read("weights") - whole.run.trace.read("weights")
    assert np.abs(apart).max() <= 1e-6


@pytest.mark.usefixtures("folder")
def test_texts_that_do_not_fit_in_memory_are_processed_in_chunks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, model = open_model_folder(folder, Device.CPU)
    whole = Model(model).attend(TEXT)
    assert not whole.runs[0].run.trace.is_blockwise
    monkeypatch.setattr("visualizer.models.text_model.USABLE_MEMORY_SHARE", 0)
    monkeypatch.setattr(long_text_runner, "check_free_memory", lambda *_: None)  # for the vectors
    seen = Model(model).attend(TEXT)
    assert seen.runs[0].run.trace.is_blockwise
    assert seen.tokens == whole.tokens
    assert np.abs(seen["weights"] - whole["weights"]).max() <= 1e-6
    assert "The other stages are not available" in seen.notices[0]
    row = seen.attention(0)["weights", 0, 1, 20]
    assert np.abs(row - whole["weights"][0, 1, 20]).max() <= 1e-6
    cell = seen.explain("weights", layer=1, head=2, query=30, key=4)
    wanted = whole.explain("weights", layer=1, head=2, query=30, key=4)
    assert cell.value == pytest.approx(wanted.value, abs=1e-6)
    for found, expected in zip(seen.heads(), whole.heads(), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)
    assert seen.figure(["weights"], layer=0)._repr_png_()[0][:4] == b"\x89PNG"
