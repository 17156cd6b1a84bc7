"""The overview of all heads: pooled weights, orders, and descriptions of heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from visualizer.attention import run as attention_run
from visualizer.attention.blockwise_captured_run import (
    LayerVectors,
    LongTextAttention,
    blockwise_captured_run,
)
from visualizer.attention.captured_attention import CapturedAttention, LayerMask
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.spec import AttentionSpec, MaskKind
from visualizer.errors import InputError
from visualizer.features.layer_overview.presenter import (
    MAX_CELLS_PER_SIDE,
    LayerOverviewPanel,
    order_heads_by_similarity,
    present_layer_overview,
    present_overview_of_runs,
)
from visualizer.format import format_percentage
from visualizer.models.model_source import HeadEdit, HeadEditKind, ModelSource
from visualizer.session.document import Document, LineGrouping
from visualizer.session.head_order import HeadOrder
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

if TYPE_CHECKING:
    from visualizer.attention.run import Run

TOKENS = ("a", "b", "a", "b", "a")


def layers_of(weights: np.ndarray, tokens: tuple[str, ...] = TOKENS) -> LayerOverviewPanel:
    run = create_captured_run(
        CapturedAttention.from_array("made", weights.astype(np.float32), tokens)
    )
    return present_layer_overview(resolve_view(Document(), View(), run), None)


def previous_token_head(count: int) -> np.ndarray:
    return np.asarray(np.eye(count, k=-1) + np.eye(count) * (np.arange(count) == 0))


def uniform_head(count: int) -> np.ndarray:
    return np.asarray(np.tri(count) / np.arange(1, count + 1)[:, None])


def two_layers() -> np.ndarray:
    one, two = previous_token_head(5), uniform_head(5)
    return np.stack([[two, one], [np.eye(5), two]])


def without_later(weights: np.ndarray) -> np.ndarray:
    """Return weights with NaN on later keys, which are masked because no head attends to them."""
    return np.where(np.tri(weights.shape[-1], dtype=bool), weights, np.nan)


def test_each_head_of_each_layer_is_there_and_named() -> None:
    panel = layers_of(two_layers())
    assert panel.places == ((0, 0), (1, 0), (0, 1), (1, 1))
    assert panel.columns == 2
    assert panel.weights is not None
    np.testing.assert_allclose(panel.weights, without_later(two_layers()), atol=1e-7)
    assert panel.describe_head((0, 1)).startswith(
        "Layer 1, head 2; attends to the previous token: 100%"
    )
    assert panel.describe_head((1, 0)).startswith(
        "Layer 2, head 1; attends to the current token: 100%"
    )


@pytest.mark.parametrize("order", HeadOrder)
def test_every_order_has_every_head_once(order: HeadOrder) -> None:
    run = create_captured_run(
        CapturedAttention.from_array("made", two_layers().astype(np.float32), TOKENS)
    )
    panel = present_layer_overview(resolve_view(Document(), View(head_order=order), run), None)
    assert sorted(panel.places) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first = {
        HeadOrder.LAYER: (0, 0), HeadOrder.PREVIOUS: (0, 1), HeadOrder.OWN: (1, 0),
        HeadOrder.FARTHEST: (0, 0),
    }  # fmt: skip
    assert panel.places[0] == first.get(order, panel.places[0])


def test_heads_that_value_weighting_changes_most_stand_first_and_say_by_how_much() -> None:
    document = Document(text="one two three")
    run = run_document(document, None)
    view = View(head_order=HeadOrder.VALUE_WEIGHTING)
    panel = present_layer_overview(resolve_view(document, view, run), None)
    shares = (
        run.trace.displayed_tensor("weights", WeightTransform.TIMES_VALUE).read().astype(np.float64)
    )
    weights = run.trace.read("weights").astype(np.float64)  # head query key
    shares /= shares.sum(-1, keepdims=True)
    moved = (np.abs(shares - weights).sum(-1) / 2).mean(-1)
    assert [head for _, head in panel.places] == np.argsort(-moved).tolist()
    first = panel.describe_head(panel.places[0])
    differ = (
        "weights change when multiplied by ‖v‖ and "
        f"renormalized: {format_percentage(moved.max())}, "
        f"uniform attention"
    )
    assert differ in first
    assert "‖v‖" not in present_layer_overview(
        resolve_view(document, View(), run), None
    ).describe_head((0, 0))


def test_likeness_puts_alike_heads_beside_each_other() -> None:
    order = order_heads_by_similarity(two_layers())
    assert abs(order.index(0) - order.index(3)) == 1  # both uniform


def test_cells_that_are_forbidden_are_blank() -> None:
    document = Document(text="one two three", spec=AttentionSpec(mask=MaskKind.CAUSAL))
    panel = present_layer_overview(
        resolve_view(document, View(), run_document(document, None)), None
    )
    assert panel.weights is not None
    blank = np.isnan(panel.weights)
    np.testing.assert_array_equal(blank, np.broadcast_to(~np.tri(3, dtype=bool), blank.shape))


def test_long_texts_are_pooled_to_the_largest_of_each_block() -> None:
    count = 2 * MAX_CELLS_PER_SIDE + 3
    weights = np.random.default_rng(1).random((1, 1, count, count))
    panel = layers_of(weights, tuple(map(str, range(count))))
    assert panel.block == 3
    assert panel.weights is not None
    size = math.ceil(count / 3)
    padded = np.zeros((3 * size, 3 * size))
    padded[:count, :count] = weights[0, 0]
    wanted = padded.reshape(size, 3, size, 3).max((1, 3))
    np.testing.assert_allclose(panel.weights[0, 0], wanted, rtol=1e-6)
    assert [one.end for one in panel.ranges] == [1]


def test_the_text_of_a_batch_is_the_one_that_is_shown() -> None:
    document = Document(text="one two\nthree four five", lines=LineGrouping.APART)
    run = run_document(document, None)
    panel = present_layer_overview(resolve_view(document, View(text=1), run), None)
    assert panel.weights is not None
    wanted = run.trace.read("weights", (1,))
    np.testing.assert_array_equal(np.nan_to_num(panel.weights[0]), wanted)
    entropies = run.trace.head_measures("weights", run.texts).entropy[1]
    np.testing.assert_array_equal(panel.values["entropy"][0], entropies)


def test_an_unchanged_panel_is_the_same_object() -> None:
    run = create_captured_run(
        CapturedAttention.from_array("made", two_layers().astype(np.float32), TOKENS)
    )
    first = present_layer_overview(resolve_view(Document(), View(), run), None)
    assert present_layer_overview(resolve_view(Document(), View(), run), first) is first
    assert present_layer_overview(resolve_view(Document(), View(layer=1), run), first) is not first


def test_scores_have_no_overview() -> None:
    panel = layers_of(two_layers() - 2)
    assert panel.weights is None
    assert "scores only" in panel.message


def test_runs_of_several_groups_stand_in_the_order_of_their_layers() -> None:
    whole = two_layers().astype(np.float32)
    runs = [
        create_captured_run(CapturedAttention.from_array("made", whole[at : at + 1], TOKENS))
        for at in (1, 0)
    ]
    panel = present_overview_of_runs([(runs[0], (1,)), (runs[1], (0,))], HeadOrder.LAYER)
    assert panel.layers == (0, 1)
    assert panel.weights is not None
    np.testing.assert_allclose(panel.weights, without_later(whole))
    measured = present_overview_of_runs([(runs[0], (1,)), (runs[1], (0,))], HeadOrder.PREVIOUS)
    assert measured.places[0] == (0, 1)
    said = "Layer 1, head 2, rank 1 of 4; attends to the previous token: 100%"
    assert measured.describe_head((0, 1)).startswith(said)


def test_layers_that_differ_in_heads_have_no_overview() -> None:
    one = create_captured_run(
        CapturedAttention.from_array("a", two_layers()[:1].astype(np.float32))
    )
    other = create_captured_run(
        CapturedAttention.from_array("b", two_layers()[:1, :1].astype(np.float32))
    )
    with pytest.raises(InputError, match="cannot be combined"):
        present_overview_of_runs([(one, (0,)), (other, (1,))], HeadOrder.LAYER)


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_another_number_of_heads_with_the_same_text_has_all_its_heads(
    before: int, after: int
) -> None:
    panel = None
    for heads in (before, after):
        document = Document(text="one two three", spec=AttentionSpec(d_in=4, d_out=4, heads=heads))
        view = View(head_order=HeadOrder.SHARPEST)
        panel = present_layer_overview(
            resolve_view(document, view, run_document(document, None)), panel
        )
    assert panel
    assert sorted(panel.places) == [(0, head) for head in range(after)]


def long_model_run() -> tuple[Run, np.ndarray]:
    """Return a run with two layers of a long text, and its weights."""
    generator = torch.Generator().manual_seed(1)
    words = tuple(f"word {place % 29}" for place in range(80))
    rule = LayerMask(MaskKind.CAUSAL)
    layers = []
    for _ in range(2):
        queries, keys, values = (
            3 * torch.randn(heads, 80, 4, generator=generator) for heads in (4, 2, 2)
        )
        scores = (queries @ keys.repeat_interleave(2, 0).mT / 2).tril()
        scores.masked_fill_(~torch.ones(80, 80).tril().bool(), -math.inf)
        layers.append(LayerVectors(queries, keys, values, scores.logsumexp(-1), rule))
    run = blockwise_captured_run(LongTextAttention("made", tuple(layers), words, 0.5), "CPU")
    return run, run.trace.read("weights")


def test_a_long_text_of_a_model_is_shown_by_one_row_of_each_block() -> None:
    run, weights = long_model_run()
    panel = present_layer_overview(resolve_view(Document(), View(), run), None)
    assert panel.block == 3
    assert panel.weights is not None
    rows = np.minimum(np.arange(27) * 3 + 1, 79)
    sampled = np.pad(weights[:, :, rows], ((0, 0), (0, 0), (0, 0), (0, 1)))
    wanted = sampled.reshape(2, 4, 27, 27, 3).max(-1)
    upper = ~np.tri(27, dtype=bool)
    assert np.isnan(panel.weights[..., upper]).all()
    np.testing.assert_allclose(panel.weights[..., ~upper], wanted[..., ~upper], atol=1e-6)
    assert "one of every 3 rows" in panel.note
    own = weights[:, :, np.arange(80), np.arange(80)].mean(-1)
    np.testing.assert_allclose(panel.values["own"], own, atol=1e-6)
    assert "entropy" not in panel.describe_head((0, 0))


def test_heads_of_a_long_text_stand_by_what_is_measured_of_them() -> None:
    run, weights = long_model_run()
    panel = present_layer_overview(
        resolve_view(Document(), View(head_order=HeadOrder.FIRST), run), None
    )
    first = weights[..., 0].mean(-1).flatten()
    assert [4 * layer + head for layer, head in panel.places] == np.argsort(-first).tolist()
    by_spread = present_layer_overview(
        resolve_view(Document(), View(head_order=HeadOrder.SHARPEST), run), None
    )
    assert by_spread.places == tuple((at // 4, at % 4) for at in range(8))


@pytest.mark.parametrize("order", HeadOrder)
def test_a_long_text_of_a_module_has_pictures_without_measures(
    order: HeadOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
    document = Document(text=" ".join(f"word{place}" for place in range(70)))
    run = run_document(document, None)
    assert run.trace.is_blockwise
    panel = present_layer_overview(resolve_view(document, View(head_order=order), run), None)
    assert panel.weights is not None
    assert panel.weights.shape == (1, document.spec.heads, 24, 24)
    assert len(panel.places) == document.spec.heads
    place = ", rank 1 of 2" if order is HeadOrder.CHANGED else ""
    assert panel.describe_head((0, 0)) == f"Layer 1, head 1{place}."
    assert "heads are sorted by layer" in panel.note


def test_a_module_that_is_still_shown_has_no_edits_of_the_model_that_is_read_next() -> None:
    """A module does not have the edited layer and head; it is shown until the model is computed."""
    module = Document(spec=AttentionSpec(heads=1))
    model = ModelSource(
        "folder", "a model", "0", layers=(2,), edits=(HeadEdit(2, 1, HeadEditKind.SCALED, 0.5),)
    )
    resolved = resolve_view(Document(model=model), View(), run_document(module, None), module)
    panel = present_layer_overview(resolved, None)
    assert (dict(panel.edits), panel.layers, panel.places) == ({}, (0,), ((0, 0),))
