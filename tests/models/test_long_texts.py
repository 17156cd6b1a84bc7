"""Tests that weights of long texts, computed on access, match the model's own attention."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.support.explained_values import result_of, room
from tests.support.screens import resolved
from tests.support.tiny_models import WORDS, save_tiny_model, tiny_model
from visualizer.attention import blockwise_tensor
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.head_measures import measure_heads
from visualizer.attention.spec import Device, MaskKind
from visualizer.errors import InputError
from visualizer.explanations.explain import describe_step, explain
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.models import long_text_recorder, long_text_runner
from visualizer.models.attention_recorder import record_attention
from visualizer.models.layer_run_lookup import HEAD_MEASURES
from visualizer.models.long_text_recorder import (
    create_long_text_runs,
    recognize_mask_rule,
    record_long_text,
)
from visualizer.models.model_source import HeadEdit, HeadEditKind
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.progress import CancelledError, cancel_when
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import Step
from visualizer.session.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.recorded_runs import LayerGroupRun

TOKENS = 60
TEXT = " ".join(WORDS * 4)


def given() -> dict[str, torch.Tensor]:
    ids = (torch.arange(TOKENS) * 7 % 50 + 3)[None]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def both(kind: str, **settings: object) -> tuple[list[AttentionCall], tuple[LayerGroupRun, ...]]:
    """Record a model on a text with all weights, and on the same text as a long text."""
    model = tiny_model(kind, **settings)
    with torch.inference_mode():
        with record_attention(model) as whole:
            wanted = model(**given())
        with record_long_text(model) as calls:
            found = model(**given())
    torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=1e-5)
    return whole, create_long_text_runs(calls, kind, tuple(map(str, range(TOKENS))), "CPU")


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every text as long, and use small blocks."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(long_text_recorder, "CELLS_PER_BLOCK", 2_000)
    monkeypatch.setattr(blockwise_tensor, "BAND_ROWS", 8)
    monkeypatch.setattr(blockwise_tensor, "CHUNK_COLUMNS", 16)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("kind", "stages"),
    [
        ("llama", ("scores", "scaled", "masked")),
        ("gemma2", ("scores", "scaled", "capped", "masked")),
        ("gpt_oss", ("scores", "scaled", "masked")),
        ("deepseek_v3", ("scores", "scaled", "masked")),
        ("qwen3_next", ("scores", "scaled", "masked")),
        ("gpt2", ("scores", "scaled", "masked")),
        ("bert", ("scores", "scaled")),
    ],
)
def test_weights_equal_those_of_eager_attention(kind: str, stages: tuple[str, ...]) -> None:
    whole, runs = both(kind)
    (run,) = [each.run for each in runs]
    trace = run.trace
    assert trace.is_blockwise
    assert trace.names == ("queries", "keys", "values", *stages, "weights", "context")
    for at, call in enumerate(whole):
        place = (at,) if trace.axes else ()
        wanted = call.weights[0].numpy()
        assert np.abs(trace.read("weights", place) - wanted).max() <= 1e-6
        rows = trace.read("weights", (*place, 1, slice(20, 40), slice(3, 50)))
        assert np.abs(rows - wanted[1, 20:40, 3:50]).max() <= 1e-6
        assert call.context is not None
        contexts = call.context[0].transpose(0, 1).numpy()
        assert np.abs(trace.read("context", place) - contexts).max() <= 1e-5


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss"])
def test_every_stage_of_a_cell_is_explained(kind: str) -> None:
    _, (found,) = both(kind)
    trace = found.run.trace
    for stage in trace.names:
        for cell in ((0, 1, 20, 3), (1, 3, 41, 2), (1, 2, 5, 5)):
            explanation, value = explain(trace, stage, cell), float(trace.read(stage, cell))
            if np.isfinite(value):
                within = room(explanation, trace.spec.dtype)
                assert result_of(explanation) == pytest.approx(value, abs=within)
            else:
                assert explanation.value == value


@pytest.mark.usefixtures("long")
def test_a_copy_has_the_same_values() -> None:
    _, (found,) = both("gpt_oss")
    trace = found.run.trace
    copied = pickle.loads(pickle.dumps(trace))
    assert copied.is_blockwise
    for name in trace.names:
        np.testing.assert_array_equal(copied.read(name), trace.read(name))


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_head_measures_equal_those_of_the_whole_weights(kind: str) -> None:
    whole, (found,) = both(kind)
    trace = found.run.trace
    weights = torch.stack([call.weights[0] for call in whole])
    values = torch.from_numpy(np.array(trace.read("values")))
    measures, wanted = (
        trace.head_measures("weights", found.run.texts),
        measure_heads(weights, (), found.run.texts, values),
    )
    for name in HEAD_MEASURES:
        found_one, wanted_one = getattr(measures, name), getattr(wanted, name)
        np.testing.assert_allclose(found_one, wanted_one, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("long")
def test_head_measures_do_not_load_all_values_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (found,) = both("llama")
    monkeypatch.delattr(blockwise_tensor.BlockwiseTensor, "tensor")
    assert np.isfinite(found.run.trace.head_measures("weights").value_weighting).all()
    assert np.isfinite(found.run.trace.uniform_head_measures("weights", (0,)).value_weighting).all()


@pytest.mark.usefixtures("long")
def test_vectors_are_described_as_computed_by_the_model(tmp_path: Path) -> None:
    source, _model = open_model_folder(save_tiny_model(tmp_path / "llama"), Device.CPU)
    run = read_text(source, TEXT, Device.CPU)
    step = Step("queries", range(2, 3), range(8))
    assert " was computed by the model: [" in describe_step(run, (0,), step, head=0)
    panel = explain_head_cell(resolved(run, View()), Cell("queries", (0, 2, 1)), is_pinned=False)
    assert " was computed by the model: " in panel.sentence
    assert panel.formula == "read from the model"


@pytest.mark.usefixtures("long")
def test_pictures_show_the_weights() -> None:
    whole, (found,) = both("gpt_oss")
    held = found.run.trace.cached_stage_tensor("weights")
    for layer, call in enumerate(whole):
        for head in range(4):
            index = (layer, head, slice(None), slice(None))
            held.draw_coarse_rows(4, 4, index)
            assert held.draw_exact_rows(4, 4, index, lambda: False)
            blocks = call.weights[0, head].view(15, 4, 15, 4).amax((1, 3)).numpy()
            assert np.abs(held.read_pooled(4, 4, index) - blocks).max() <= 1e-6
            largest = call.weights[0, head].amax(-1).numpy()
            assert np.abs(held.row_magnitudes((layer, head)) - largest).max() <= 1e-6


@pytest.mark.usefixtures("long")
def test_keys_shared_by_several_heads_are_stored_once() -> None:
    _, (found,) = both("llama")
    trace = found.run.trace
    one = 2 * TOKENS * 8 * 4  # layers, tokens, columns, bytes
    assert trace.bytes == one * (4 + 2 + 2)
    assert trace.shape("keys") == (2, 4, TOKENS, 8)
    np.testing.assert_array_equal(trace.read("keys", (0, 0)), trace.read("keys", (0, 1)))
    lengths = np.linalg.norm(trace.read("values", (1, 3)), axis=-1)
    seen = trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE).read((1, 3))
    np.testing.assert_allclose(seen, trace.read("weights", (1, 3)) * lengths, rtol=1e-5)


@pytest.mark.usefixtures("long")
def test_masks_may_differ_by_layer() -> None:
    _, (found,) = both("gemma2")
    trace = found.run.trace
    assert [one.mask for one in trace.layer_masks] == [MaskKind.WINDOW, MaskKind.CAUSAL]
    scores = trace.read("masked", (0, 2))
    is_near = np.tri(TOKENS, dtype=bool) & ~np.tri(TOKENS, k=-4, dtype=bool)
    np.testing.assert_array_equal(np.isfinite(scores), is_near)
    np.testing.assert_array_equal(trace.allowed_mask("masked", (0,)), is_near)


@pytest.mark.parametrize(("key_heads", "is_used"), [(2, False), (4, True)])
def test_an_old_kernel_does_not_get_shared_keys(
    monkeypatch: pytest.MonkeyPatch, key_heads: int, is_used: bool
) -> None:
    by_kernel, given_keys = long_text_recorder.compute_with_flash_kernel, []

    def watched(call: long_text_recorder.CallVectors) -> tuple[torch.Tensor, torch.Tensor]:
        given_keys.append(len(call.keys))
        return by_kernel(call)

    monkeypatch.setattr(long_text_recorder, "compute_with_flash_kernel", watched)
    monkeypatch.setattr(long_text_recorder, "HAS_SHARED_KEYS", False)
    both("llama", num_key_value_heads=key_heads)
    assert given_keys == [4, 4] * is_used


@pytest.mark.parametrize("kind", ["modernbert", "granite_swa", "t5"])
def test_attention_that_cannot_be_recomputed_is_rejected(kind: str) -> None:
    model = tiny_model(kind)
    inputs = given()
    if kind == "t5":
        inputs["decoder_input_ids"] = inputs["input_ids"]
    with torch.inference_mode(), record_long_text(model), pytest.raises(UnsupportedAttentionError):
        model(**inputs)
    assert model.config._attn_implementation != long_text_recorder.RULE_IMPLEMENTATION


@pytest.mark.parametrize("tokens", [1, 2, 37])
@pytest.mark.parametrize("window", [1, 5, 12])
def test_mask_rules_are_recognized(tokens: int, window: int) -> None:
    causal = np.tri(tokens, dtype=bool)
    near = causal & ~np.tri(tokens, k=-window, dtype=bool)
    chunks = causal & (np.arange(tokens)[:, None] // 10 == np.arange(tokens) // 10)
    whole = np.ones((tokens, tokens), bool)

    def rule(cells: np.ndarray) -> LayerMask | None:
        return recognize_mask_rule(
            lambda queries, keys: cells[queries.numpy(), keys.numpy()], tokens
        )

    is_causal = LayerMask(MaskKind.CAUSAL)
    assert rule(causal) == is_causal
    is_near = is_causal if window >= tokens else LayerMask(MaskKind.WINDOW, window=window)
    assert rule(near) == is_near
    if tokens > 10:
        assert rule(whole) == LayerMask()
        assert rule(chunks) is None
        assert rule(near | near.T) == (is_near if window == 1 else None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "tiny", max_position_embeddings=256)


@pytest.mark.usefixtures("long")
def test_a_long_text_is_processed_without_storing_weights(folder: Path) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    run = read_text(source, TEXT, Device.CPU)
    assert run.trace.is_blockwise
    assert run.reading is not None
    assert run.reading.captured is None
    assert run.size_text == "2 layers × 4 heads × 49 × 49"
    (short,) = model.attend(TEXT)
    weights = run.trace.read("weights")
    assert np.abs(weights - short.run.trace.read("weights")).max() <= 1e-6
    logs = model.next_token_log_probabilities(TEXT)
    likeliest = max(run.reading.next_tokens, key=lambda each: each.probability)
    assert likeliest.probability == pytest.approx(float(logs.max().exp()), abs=1e-6)


@pytest.mark.usefixtures("long")
def test_heads_can_be_ablated_but_not_mean_ablated_for_a_long_text(folder: Path) -> None:
    source, _model = open_model_folder(folder, Device.CPU)
    off = replace(source, edits=(HeadEdit(0, 1, HeadEditKind.OFF),))
    run = read_text(off, TEXT, Device.CPU)
    assert run.trace.is_blockwise
    mean = replace(source, edits=(HeadEdit(0, 1, HeadEditKind.MEAN),))
    with pytest.raises(InputError, match="are not kept"):
        read_text(mean, TEXT, Device.CPU)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("kind", ["bloom", "modernbert"])
def test_unsupported_models_process_the_whole_text_if_it_fits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny_model(tmp_path / "tiny", kind, max_position_embeddings=256)
    source, _ = open_model_folder(folder, Device.CPU)
    run = read_text(source, TEXT, Device.CPU)
    assert not run.trace.is_blockwise
    monkeypatch.setattr("visualizer.models.text_model.USABLE_MEMORY_SHARE", 0)
    monkeypatch.setattr(long_text_runner, "check_free_memory", lambda *_: None)  # for the vectors
    with pytest.raises(InputError, match="kept in memory: 2 layers × 4 heads"):
        read_text(source, f"{TEXT} cat", Device.CPU)


@pytest.mark.usefixtures("long")
def test_a_long_text_is_cancelled_between_layers(folder: Path) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    read_text(source, "the cat", Device.CPU)
    asked: list[bool] = []

    def is_second() -> bool:
        asked.append(True)
        return len(asked) == 2

    with cancel_when(is_second), pytest.raises(CancelledError):
        read_text(source, TEXT, Device.CPU)
    assert len(asked) == 2
    assert model.model.config._attn_implementation == "eager"
    assert read_text(source, TEXT, Device.CPU).trace.is_blockwise
