"""Heatmaps show the trace: rows are queries, columns are keys, marks in the right cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.screens import resolved, warm
from tests.support.small_runs import a_run, board, panel
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
)
from visualizer.attention.token_embeddings import PADDING_LABEL
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.session.document import BOOK_SENTENCE
from visualizer.session.view import View
from visualizer.session.view_options import (
    AUTOMATIC_MAP,
    DEFAULT_MAP,
    ColourCurve,
    ColourLimits,
    ColourOptions,
)

SIMPLE = apply_mechanism(Mechanism.SIMPLIFIED, AttentionSpec(device=Device.CPU))
BOOK = tuple(BOOK_SENTENCE.split())
AFTER: dict[str, Any] = {"route": MaskPlacement.AFTER}
HALF: dict[str, Any] = {"dropout": 0.5, "dropout_seed": 3}


# ------------------------------------------------------------------------------- orientation


def test_rows_are_queries_and_columns_are_keys() -> None:
    # Your · Your = 0.9995, Your · journey = 0.9544, journey · journey = 1.4950, by hand.
    heatmap = panel(run((("Your", "journey"),), SIMPLE), "weights")
    by_hand = [[0.5113, 0.4887], [0.3680, 0.6320]]
    np.testing.assert_allclose(heatmap.values, by_hand, atol=1e-4)
    your_reads_journey = math.exp(0.9544) / (math.exp(0.9995) + math.exp(0.9544))
    journey_reads_your = math.exp(0.9544) / (math.exp(0.9544) + math.exp(1.4950))
    assert heatmap.values[0, 1] == pytest.approx(your_reads_journey, abs=1e-4)
    assert heatmap.values[1, 0] == pytest.approx(journey_reads_your, abs=1e-4)
    assert (heatmap.rows.name, heatmap.columns.name) == ("query", "key")
    assert heatmap.rows.labels == heatmap.columns.labels == ("Your", "journey")


def test_a_causal_mask_forbids_above_the_diagonal() -> None:
    heatmap = panel(a_run("a b c"), "weights")
    assert heatmap.forbidden is not None
    assert heatmap.forbidden.tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert heatmap.values[0].tolist() == [1, 0, 0]


def test_vectors_have_a_row_per_token_and_a_column_per_number() -> None:
    computed = a_run("a b c", d_in=5, d_out=4)
    shapes = {shown.stage: shown.values.shape for shown in board(computed).heatmaps}
    assert shapes["input"] == (3, 5)
    assert shapes["queries"] == shapes["context"] == (3, 2)
    assert shapes["output"] == (3, 4)
    context = panel(computed, "context", 1)
    assert (context.rows.name, context.rows.labels) == ("query", ("a", "b", "c"))
    assert (context.columns.labels, context.columns.is_token) == (("1", "2"), False)
    np.testing.assert_array_equal(context.values, computed.trace.read("context", (1,)))


def test_each_stage_is_a_column_and_each_head_is_a_row() -> None:
    shown = board(a_run(heads=2), stages=frozenset({"scores", "weights", "output"}))
    stages = [[heatmap.stage for heatmap in column] for column in shown.columns]
    assert stages == [["scores", "scores"], ["weights", "weights"], ["output"]]
    assert [[heatmap.head for heatmap in column] for column in shown.columns] == [
        [0, 1],
        [0, 1],
        [None],
    ]


# ----------------------------------------------------------------------------------- hatching


@pytest.mark.parametrize("route", MaskPlacement)
@pytest.mark.parametrize("mask", [MaskKind.CAUSAL, MaskKind.WINDOW])
def test_exactly_the_forbidden_cells_are_hatched(mask: MaskKind, route: MaskPlacement) -> None:
    computed = a_run("a b c d", mask=mask, window=2, route=route, **HALF)
    distance = np.arange(4)[:, None] - np.arange(4)
    forbidden = (distance < 0) | (distance >= (2 if mask is MaskKind.WINDOW else 4))
    hatched = {"masked", "zeroed", "weights", "dropped"}
    for heatmap in board(computed).heatmaps:
        if heatmap.stage in hatched:
            np.testing.assert_array_equal(heatmap.forbidden, forbidden)
        else:
            assert heatmap.forbidden is None


def test_nothing_is_hatched_without_a_mask() -> None:
    heatmaps = board(a_run(mask=MaskKind.NONE, **HALF)).heatmaps
    assert [heatmap.stage for heatmap in heatmaps if heatmap.forbidden is not None] == []


def test_a_custom_mask_is_hatched_as_written() -> None:
    allowed = np.array([[1, 0], [1, 1]], dtype=bool).T
    heatmap = panel(
        a_run("a b", mask=MaskKind.OWN, own_mask=BooleanMatrix.from_array(allowed)), "weights"
    )
    assert heatmap.forbidden is not None
    assert heatmap.forbidden.tolist() == [[0, 0], [1, 0]]


def test_padding_is_hatched_only_in_its_text() -> None:
    computed = a_run("a b c", "d", mask=MaskKind.NONE)
    whole, padded = (panel(computed, "weights", text=text) for text in (0, 1))
    assert whole.forbidden is not None
    assert padded.forbidden is not None
    assert not whole.forbidden.any()
    assert padded.forbidden.tolist() == 3 * [[False, True, True]]
    assert padded.rows.labels == ("d", PADDING_LABEL, PADDING_LABEL)


# -------------------------------------------------------------------------------------- marks


def test_dropped_cells_had_a_weight_before_dropout() -> None:
    computed = a_run(**HALF)
    for head in (0, 1):
        heatmap = panel(computed, "dropped", head)
        weights, left = (computed.trace.read(name, (head,)) for name in ("weights", "dropped"))
        assert heatmap.dropped is not None
        np.testing.assert_array_equal(heatmap.dropped, (weights > 0) & (left == 0))
        assert heatmap.dropped.any()
        assert heatmap.forbidden is not None
        assert not (heatmap.dropped & heatmap.forbidden).any()
    assert heatmap.notes == ("kept ×2",)
    assert panel(computed, "weights").dropped is None


def test_cells_that_were_0_before_dropout_are_not_dropped() -> None:
    computed = a_run(mask=MaskKind.NONE, temperature=1e-4, **HALF)
    heatmap, weights = panel(computed, "dropped"), computed.trace.read("weights", (0,))
    assert heatmap.dropped is not None
    assert (weights == 0).any()
    assert not heatmap.dropped[weights == 0].any()


def test_no_cell_is_dropped_in_evaluation_mode() -> None:
    assert "dropped" not in a_run(mode=DropoutMode.EVAL, **HALF).trace


def test_row_sums_are_shown_only_if_they_are_not_1() -> None:
    assert panel(a_run(), "weights").sums is None
    assert panel(a_run(**AFTER), "unmasked").sums is None
    cut = panel(a_run(**AFTER), "weights")
    assert cut.sums is not None
    np.testing.assert_allclose(cut.sums, cut.values.sum(axis=1), atol=1e-6)
    assert (cut.sums[:-1] < 1).all()
    dropped = panel(a_run(**HALF), "dropped")
    assert dropped.sums is not None
    np.testing.assert_allclose(dropped.sums, dropped.values.sum(axis=1), atol=1e-6)
    assert panel(a_run(), "scores").sums is None


# ------------------------------------------------------------------------------------- pooling


def test_pooled_cells_show_the_largest_magnitude_and_a_note() -> None:
    computed = a_run("a b c d e f g", d_in=3, d_out=2)
    whole, pooled = panel(computed, "weights"), panel(computed, "weights", room=4)
    assert pooled.values.shape == (4, 4)
    assert pooled.values[1, 0] == whole.values[2:4, 0:2].max()
    assert pooled.values[3, 3] == whole.values[6, 6]
    assert pooled.notes == ("each cell: largest of 2 × 2",)
    assert (pooled.rows.block, pooled.columns.block) == (2, 2)
    assert pooled.rows.labels == tuple("abcdefg")
    assert pooled.is_pooled
    assert (whole.is_pooled, whole.notes) == (False, ())


def test_a_pooled_cell_is_hatched_when_all_of_it_is_forbidden() -> None:
    pooled = panel(a_run("a b c d e f g"), "weights", room=4)
    assert pooled.forbidden is not None
    np.testing.assert_array_equal(pooled.forbidden, ~np.tri(4, dtype=bool))


def test_a_long_narrow_panel_is_pooled_in_one_direction() -> None:
    pooled = panel(a_run("a b c d e f g"), "context", room=3)
    assert pooled.values.shape == (3, 1)
    assert pooled.notes == ("each cell: largest magnitude of 3 × 1",)


def test_a_pooled_panel_has_no_row_sums() -> None:
    assert panel(a_run(**AFTER), "weights", room=2).sums is None


# ------------------------------------------------------------------------------------- colours


def test_colours_mean_the_same_in_every_head() -> None:
    computed = a_run(heads=2)
    for stage in ("scores", "masked", "context"):
        one, two = (panel(computed, stage, head).colour for head in (0, 1))
        assert one == two
        assert one.low == -one.high
        assert one.map == AUTOMATIC_MAP


def test_weights_can_have_a_scale_from_0_to_1() -> None:
    unit = ColourOptions(limits=ColourLimits.UNIT)
    colour = panel(a_run(), "weights", colouring=unit).colour
    assert (colour.map, colour.low, colour.high) == (DEFAULT_MAP, 0, 1)
    stages = ("weights", "dropped")
    dropping = [panel(a_run(**HALF), stage, colouring=unit).colour for stage in stages]
    assert [(kept.low, kept.high) for kept in dropping] == [(0, 1), (0, 2)]


def test_weights_below_0_have_a_signed_scale() -> None:
    spec = replace(SIMPLE, d_in=4, normalisation=NormalisationKind.SUM)
    colour = panel(run((BOOK,), spec), "weights").colour
    assert colour.map == AUTOMATIC_MAP
    assert colour.low == -colour.high < 0


def test_a_panel_of_zeros_has_a_scale() -> None:
    colour = panel(a_run(f"{PADDING_LABEL}", mask=MaskKind.NONE), "scores").colour
    assert colour.low < colour.high


@pytest.mark.parametrize("curve", ColourCurve)
@pytest.mark.parametrize("limits", [ColourLimits.ROW, ColourLimits.PANEL, ColourLimits.SHARED])
@pytest.mark.parametrize("stage", ["scores", "weights", "context"])
def test_the_chosen_colour_map_applies_to_every_panel(
    curve: ColourCurve, limits: ColourLimits, stage: str
) -> None:
    computed = a_run()
    chosen = ColourOptions(curve, limits)
    for head in (0, 1):
        colour = panel(computed, stage, head, colouring=chosen).colour
        assert (colour.curve, colour.limits) == (curve, limits)
        numbers = computed.trace.read(stage, (head,) if limits is ColourLimits.PANEL else ())
        assert colour.high == pytest.approx(float(np.abs(numbers).max()))
        assert colour.low == (0 if stage == "weights" else -colour.high)


def test_entered_limits_apply_to_their_stage_and_cells_beyond_them_are_counted() -> None:
    computed = a_run()
    typed = ColourOptions(
        limits=ColourLimits.TYPED, typed=(("weights", 0.2, 0.5), ("scores", -0.1, 0.3))
    )
    weights = panel(computed, "weights", colouring=typed)
    assert (weights.colour.low, weights.colour.high) == (0.2, 0.5)
    numbers = computed.trace.read("weights", (0,))[np.tri(computed.trace.query_count, dtype=bool)]
    above, below = int((numbers > 0.5).sum()), int((numbers < 0.2).sum())
    assert above
    assert weights.notes == (f"◥ {above} above, ◢ {below} below",)
    scores = panel(computed, "scores", colouring=typed).colour
    assert (scores.low, scores.high) == (-0.3, 0.3)
    assert panel(computed, "context", colouring=typed).colour.limits is ColourLimits.SHARED


# ------------------------------------------------------------------------------ cached panels


def test_unchanged_panels_are_the_same_objects() -> None:
    first = a_run(mask=MaskKind.NONE)
    before = board(first)
    after = board(a_run(mask=MaskKind.CAUSAL, previous=first), before)
    kept = {shown.stage for shown in after.heatmaps if shown in before.heatmaps}
    anew = {shown.stage for shown in after.heatmaps} - kept
    assert kept == {"input", "queries", "keys", "values", "scores", "scaled"}
    assert anew == {"masked", "weights", "context", "concat", "output"}


def test_panels_change_with_the_text_and_the_scale() -> None:
    computed = a_run("a b", "c d")
    before = board(computed)
    assert not set(board(computed, before, text=1).heatmaps) & set(before.heatmaps)
    other = board(computed, before, colouring=ColourOptions(sequential="cividis"))
    kept = set(other.heatmaps) & set(before.heatmaps)
    assert {shown.stage for shown in before.heatmaps} - {shown.stage for shown in kept} == {
        "weights"
    }
    assert set(board(computed, before).heatmaps) == set(before.heatmaps)


def test_labels_change_with_the_tokens_even_if_the_numbers_are_equal() -> None:
    first = a_run("z x", normalisation=NormalisationKind.UNIFORM, mask=MaskKind.NONE)
    second = a_run(
        "y x", normalisation=NormalisationKind.UNIFORM, mask=MaskKind.NONE, previous=first
    )
    assert panel(second, "weights").rows.labels == ("y", "x")
    shown = board(second, board(first))
    assert {heatmap.rows.labels for heatmap in shown.heatmaps} == {("y", "x")}


def test_stages_that_a_spec_does_not_have_are_omitted() -> None:
    assert {heatmap.stage for heatmap in board(a_run()).heatmaps} == set(a_run().trace.names)
    alone = board(a_run(), stages=frozenset({"dropped", "scores"}))
    assert {heatmap.stage for heatmap in alone.heatmaps} == {"scores"}


def test_the_board_is_never_empty() -> None:
    left = board(a_run(), stages=frozenset({"dropped"}))
    assert {heatmap.stage for heatmap in left.heatmaps} == {"weights"}


def test_prefetched_panels_are_not_pooled_again() -> None:
    computed, view = a_run(), View(room=2)
    warm(computed, view)
    held = computed.trace.cached_stage_tensor("weights")
    before = held.cached_keys
    present_board(resolved(computed, view), Board())
    assert ("pooled", 3, 3, (0,)) in before
    assert held.cached_keys == before
