"""The panels of a comparison: their order, colours, marks and titles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import a_run
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.spec import DropoutMode, MaskKind, Projection
from visualizer.features.comparison_bar.presenter import (
    PAUSED_NOTICE,
    describe_setting_differences,
    present_comparison,
)
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.view_bar.presenter import present_view_controls
from visualizer.heatmap.board import Board, Heatmap
from visualizer.heatmap.board_presenter import BoardContents, present_board_contents
from visualizer.heatmap.cell_cursor import present_cursor
from visualizer.heatmap.cell_lookup import displayed_cell, move_cursor, panel_of_cell
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison import format_signed
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import ColourCurve, ColourLimits, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from visualizer.attention.run import Run

CAUSAL, FREE = a_run(mask=MaskKind.CAUSAL), a_run(mask=MaskKind.NONE)
DROPS: dict[str, Any] = {"dropout": 0.5, "mode": DropoutMode.TRAIN}
WEIGHTS = frozenset({"weights"})
LONG = " ".join(f"w{at}" for at in range(64))


def a_view(kept: Run | None = None, **fields: Any) -> View:
    against: dict[str, Any] = {"against": ComparisonKind.KEPT, "kept": kept}
    names = ("against", "heads", "count")
    against |= {name: fields.pop(name) for name in names if name in fields}
    return View(**{"stages": WEIGHTS, "comparison": Comparison(**against), **fields})


def board(live: Run, view: View, previous: Board | None = None) -> Board:
    return present_board_contents(resolved(live, view), BoardContents(previous or Board())).board


def column(shown: Board, part: ComparisonSide, head: int = 0) -> Heatmap:
    (found,) = (one for one in shown.heatmaps if (one.part, one.head) == (part, head))
    return found


def titles(shown: Board) -> list[str]:
    return [panels[0].title for panels in shown.columns]


# ----------------------------------------------------------------------------------- A and B


def test_a_and_b_and_their_difference_are_side_by_side() -> None:
    shown = board(FREE, a_view(CAUSAL, stages=frozenset({"scores", "weights"})))
    assert titles(shown) == ["Scores A", "Scores B", "B − A", "Weights A", "Weights B", "B − A"]
    assert [len(panels) for panels in shown.columns] == 6 * [2]


def test_each_side_shows_its_own_numbers_on_a_shared_scale() -> None:
    for limits in ColourLimits:
        view = a_view(CAUSAL, colouring=ColourOptions(limits=limits))
        shown = board(FREE, view)
        for head in (0, 1):
            a, b = (column(shown, part, head) for part in (ComparisonSide.A, ComparisonSide.B))
            np.testing.assert_array_equal(a.values, CAUSAL.trace.read("weights", (head,)))
            np.testing.assert_array_equal(b.values, FREE.trace.read("weights", (head,)))
            assert a.colour == b.colour
            np.testing.assert_array_equal(a.ends, b.ends)
    shown = board(a_run(seed=1), a_view(a_run(seed=2), stages=frozenset({"scores"})))
    assert column(shown, ComparisonSide.A).colour == column(shown, ComparisonSide.B).colour


@pytest.mark.parametrize("curve", ColourCurve)
@pytest.mark.parametrize("limits", ColourLimits)
def test_the_scale_of_a_difference_is_centred_at_0(
    curve: ColourCurve, limits: ColourLimits
) -> None:
    chosen = ColourOptions(curve, limits, typed=(("weights", 0.2, 0.3),))
    colour = column(board(FREE, a_view(CAUSAL, colouring=chosen)), ComparisonSide.CHANGE).colour
    assert colour.low == -colour.high
    assert colour.map == chosen.diverging
    assert colour.curve is curve


def test_rounding_errors_are_not_changes() -> None:
    again = a_run(mask=MaskKind.CAUSAL)
    change = column(board(again, a_view(CAUSAL)), ComparisonSide.CHANGE)
    assert "no difference" in change.notes
    assert not change.values.any()
    one, other = a_run(d_in=16, d_out=16), a_run(d_in=16, d_out=16, dtype="float64")
    change = column(board(other, a_view(one)), ComparisonSide.CHANGE)
    assert "no difference" in change.notes
    assert np.abs(change.values).max() < 0.2 * change.colour.high


def test_a_weight_that_one_side_forbids_is_marked_and_counts_as_0() -> None:
    for kept, live, whose in ((CAUSAL, FREE, "A"), (FREE, CAUSAL, "B")):
        change = column(board(live, a_view(kept)), ComparisonSide.CHANGE)
        above = ~np.tri(6, dtype=bool)
        np.testing.assert_array_equal(change.uneven_cells, above)
        assert change.forbidden is not None
        assert not change.forbidden.any()
        assert f"light hatching: forbidden in {whose} only" in change.notes
        by_hand = live.trace.read("weights", (0,)) - kept.trace.read("weights", (0,))
        np.testing.assert_allclose(change.values, by_hand, atol=1e-7)
    both = column(board(a_run(seed=5), a_view(CAUSAL)), ComparisonSide.CHANGE)
    np.testing.assert_array_equal(both.forbidden, above)
    assert both.uneven_cells is None


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_forbidden_score_has_no_difference(is_kept: bool) -> None:
    window = a_run(mask=MaskKind.WINDOW, window=2, seed=3)
    kept, live = (window, CAUSAL) if is_kept else (CAUSAL, window)
    change = column(board(live, a_view(kept, stages=frozenset({"masked"}))), ComparisonSide.CHANGE)
    by_hand = live.trace.read("scaled", (0,)) - kept.trace.read("scaled", (0,))
    by_hand[(np.tri(6) == 0) | np.tri(6, k=-2, dtype=bool)] = 0
    np.testing.assert_allclose(change.values, by_hand, atol=1e-6)
    assert change.uneven_cells is not None
    np.testing.assert_array_equal(change.uneven_cells, np.tri(6, k=-2, dtype=bool))
    np.testing.assert_array_equal(change.hidden, change.uneven_cells)
    assert np.isfinite(change.values).all()


def test_differences_can_be_pooled_zoomed_and_aggregated() -> None:
    view = a_view(CAUSAL, room=3, folds=frozenset({HeadAggregate.MEAN}))
    shown = board(FREE, view)
    change = column(shown, ComparisonSide.CHANGE)
    whole = FREE.trace.read("weights", (0,)) - CAUSAL.trace.read("weights", (0,))
    blocks = whole.reshape(3, 2, 3, 2).transpose(0, 2, 1, 3).reshape(3, 3, 4)
    farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    np.testing.assert_allclose(np.abs(change.values), np.abs(farthest), atol=1e-6)
    (folded,) = (one for one in shown.heatmaps if one.fold and one.part is ComparisonSide.CHANGE)
    assert folded.values.shape == (3, 3)
    cell = Cell("weights", (0, 0, 0), None, ComparisonSide.CHANGE)
    *_, row, key = displayed_cell(resolved(FREE, view), shown, cell).place
    assert whole[row, key] == pytest.approx(change.values[0, 0], abs=1e-6)


def test_all_three_panels_are_zoomed_together() -> None:
    zoom = ZoomRange(range(1, 4), range(2, 5))
    shown = board(FREE, a_view(CAUSAL, zoom=zoom))
    assert shown.zoom == zoom
    assert shown.overview is not None
    whole = FREE.trace.read("weights", (1,)) - CAUSAL.trace.read("weights", (1,))
    np.testing.assert_allclose(
        column(shown, ComparisonSide.CHANGE, 1).values, whole[1:4, 2:5], atol=1e-6
    )


def test_entered_limits_apply_to_both_sides() -> None:
    view = a_view(CAUSAL)
    (ends,) = present_view_controls(resolved(FREE, view), board(FREE, view)).ends
    assert (ends.title, ends.low, ends.high, ends.is_signed) == ("Weights A", 0, 0.4, False)


def test_unchanged_panels_are_the_same_objects() -> None:
    view = a_view(CAUSAL)
    first = board(FREE, view)
    assert board(FREE, view, first).columns == first.columns


# ------------------------------------------------------------------------- mismatches


@pytest.mark.parametrize(
    ("fields", "text", "said"),
    [
        ({}, "a b c d e f g", "A has 6 tokens; B has 7"),
        ({"heads": 1}, "", "A has 2 heads; B has 1"),
        ({"d_out": 8}, "", "A has 1 number per vector; B has 4"),
    ],
)
def test_a_mismatch_is_shown_next_to_the_run_with_its_reason(
    fields: dict[str, Any], text: str, said: str
) -> None:
    live = a_run(*([text] if text else []), **fields)
    view = a_view(CAUSAL, stages=frozenset({"context"}))
    shown = board(live, view)
    assert titles(shown) == ["Context A", "Context B"]
    a = column(shown, ComparisonSide.A)
    assert a.is_unlinked
    np.testing.assert_array_equal(a.values, CAUSAL.trace.read("context", (0,)))
    bar = present_comparison(resolved(live, view))
    assert bar
    assert said in bar.result
    assert "cannot be compared" in bar.result
    assert bar.largest is None


def test_a_stage_that_a_does_not_have_is_shown_for_b_only() -> None:
    live = a_run(**DROPS)
    shown = board(live, a_view(CAUSAL, stages=frozenset({"dropped"})))
    assert titles(shown) == ["Dropout B"]
    bar = present_comparison(resolved(live, a_view(CAUSAL, stages=frozenset({"dropped"}))))
    assert bar
    assert bar.result.startswith("A has no dropout")


def test_other_words_of_the_same_length_keep_their_labels() -> None:
    live = a_run("My journey ends with one step")
    shown = board(live, a_view(CAUSAL))
    assert column(shown, ComparisonSide.A).rows.labels[0] == "Your"
    assert column(shown, ComparisonSide.B).rows.labels[0] == "My"
    assert not column(shown, ComparisonSide.A).is_unlinked


def test_other_texts_of_a_batch() -> None:
    kept, live = a_run("a b c", "d e f"), a_run("a b c", "x y z")
    change = column(board(live, a_view(kept, text=1)), ComparisonSide.CHANGE)
    by_hand = live.trace.read("weights", (1, 0)) - kept.trace.read("weights", (1, 0))
    np.testing.assert_allclose(change.values, by_hand, atol=1e-7)
    assert titles(board(a_run("a b c"), a_view(kept))) == ["Weights A", "Weights B"]


# -------------------------------------------------------------------------- heads and samples


def test_two_heads_are_compared_side_by_side() -> None:
    view = a_view(against=ComparisonKind.HEAD, heads=(1, 0))
    shown = board(FREE, view)
    assert titles(shown) == ["Weights, head 2", "Weights, head 1", "Head 1 − head 2"]
    one, other, change = shown.heatmaps
    np.testing.assert_array_equal(one.values, FREE.trace.read("weights", (1,)))
    np.testing.assert_array_equal(other.values, FREE.trace.read("weights", (0,)))
    np.testing.assert_allclose(change.values, other.values - one.values, atol=1e-7)
    hovered = replace(view, hovered=Cell("weights", (1, 2, 3)))
    cursor = present_cursor(resolved(FREE, hovered))
    assert (cursor.query, cursor.key) == (2, 3)
    assert titles(board(FREE, replace(view, stages=frozenset({"output"})))) == titles(shown)


def test_a_single_head_cannot_be_compared() -> None:
    single = a_run(heads=1)
    view = a_view(against=ComparisonKind.HEAD)
    assert titles(board(single, view)) == ["Weights"]
    bar = present_comparison(resolved(single, view))
    assert bar
    assert bar.result == "There is only one head."


def test_dropout_samples_are_next_to_the_weights() -> None:
    live = a_run(**DROPS)
    view = a_view(against=ComparisonKind.SAMPLES, count=4)
    shown = board(live, view)
    assert titles(shown) == ["Weights", "One sample", "Mean of 4 samples", "Mean − weights"]
    colours = {panels[0].colour for panels in shown.columns[:3]}
    assert len(colours) == 1
    bar = present_comparison(resolved(live, view))
    assert bar
    assert bar.summary == "Dropout 0.5, seeds 0 to 3: the error of the mean falls as 1/√N."
    assert (bar.count, bar.max_count) == (4, 256)


def test_without_dropout_there_are_no_samples() -> None:
    view = a_view(against=ComparisonKind.SAMPLES)
    assert titles(board(FREE, view)) == ["Weights"]
    bar = present_comparison(resolved(FREE, view))
    assert bar
    assert bar.result.startswith("Set a dropout rate above 0")
    assert bar.max_count == 1


# ----------------------------------------------------------------------------- one cursor


@pytest.mark.parametrize(
    ("live", "view"),
    [
        (FREE, a_view(CAUSAL, stages=frozenset({"scores", "weights", "context"}))),
        (FREE, a_view(against=ComparisonKind.HEAD, stages=frozenset({"scores", "weights"}))),
        (a_run(**DROPS), a_view(against=ComparisonKind.SAMPLES, count=2)),
        (a_run("a b c d e f g"), a_view(CAUSAL)),
        (a_run(LONG), a_view(a_run(LONG, seed=3), room=16)),
    ],
)
def test_arrow_keys_move_through_every_column_and_back(live: Run, view: View) -> None:
    shown = board(live, view)
    reachable = [panels[0] for panels in shown.columns if not panels[0].is_unlinked]
    cell, seen, steps = move_cursor(shown, None, 0, 1), [], 0
    for way in (1, -1):
        seen.append([panel_of_cell(shown, cell)] if cell else [])
        while True:
            after = move_cursor(shown, cell, 0, way)
            if after == cell:
                break
            assert after is not None
            cell, steps = after, steps + 1
            if panel_of_cell(shown, cell) is not seen[-1][-1]:
                seen[-1].append(panel_of_cell(shown, cell))
            assert steps < 2000
    assert seen == [reachable, reachable[::-1]]


def test_a_cell_is_highlighted_in_every_column_with_all_three_numbers() -> None:
    cell = Cell("weights", (0, 3, 1), None, ComparisonSide.A)
    view = a_view(CAUSAL, hovered=cell)
    readout = present(Document(), view, FREE, None, False, None).panel(CELL_PANEL)
    assert readout
    a, b = (one.trace.read("weights", cell.place) for one in (CAUSAL, FREE))
    assert readout.additional_sentences == (
        f"A {a:.4f}",
        f"B {b:.4f}",
        f"B − A = {format_signed(float(b - a))}",
    )
    assert readout.value == f"{b:.4f}"
    assert readout.plain_text.endswith(
        f". A {a:.4f}, B {b:.4f}, {readout.additional_sentences[2]}."
    )


@pytest.mark.parametrize(
    ("stage", "said"),
    [("weights", ("A forbidden", "B 0.", "B − A = +0.")), ("scores", ("A ", "B ", "B − A = 0."))],
)
def test_the_explanation_states_which_side_forbids_a_cell(
    stage: str, said: tuple[str, ...]
) -> None:
    view = a_view(CAUSAL, hovered=Cell(stage, (0, 1, 3)), stages=frozenset({stage}))
    readout = present(Document(), view, FREE, None, False, None).panel(CELL_PANEL)
    assert readout
    assert all(
        line.startswith(start)
        for line, start in zip(readout.additional_sentences, said, strict=True)
    )


def test_the_explanation_of_a_forbidden_score_has_no_difference() -> None:
    window = a_run(mask=MaskKind.WINDOW, window=2)
    view = a_view(CAUSAL, hovered=Cell("masked", (0, 4, 1)), stages=frozenset({"masked"}))
    readout = present(Document(), view, window, None, False, None).panel(CELL_PANEL)
    assert readout
    assert [line.split()[0] for line in readout.additional_sentences] == ["A", "B"]
    assert readout.additional_sentences[1] == "B forbidden"


def test_explanations_of_heads_and_samples_contain_their_numbers() -> None:
    view = a_view(against=ComparisonKind.HEAD, hovered=Cell("weights", (1, 2, 3)))
    readout = present(Document(), view, FREE, None, False, None).panel(CELL_PANEL)
    assert readout
    one, other = (float(FREE.trace.read("weights", (head, 2, 3))) for head in (0, 1))
    assert readout.additional_sentences == (
        f"Head 1: {one:.4f}",
        f"Head 2: {other:.4f}",
        f"head 2 − head 1 = {format_signed(other - one)}",
    )
    live = a_run(**DROPS)
    view = a_view(against=ComparisonKind.SAMPLES, count=2, hovered=Cell("weights", (0, 2, 1)))
    readout = present(Document(), view, live, None, False, None).panel(CELL_PANEL)
    assert readout
    weight, sample = (float(live.trace.read(name, (0, 2, 1))) for name in ("weights", "dropped"))
    assert readout.additional_sentences[:2] == (f"Weight {weight:.4f}", f"One sample {sample:.4f}")


# -------------------------------------------------------------------------------- in words


def test_the_largest_difference_is_named() -> None:
    view = a_view(CAUSAL)
    bar = present_comparison(resolved(FREE, view))
    by_hand = FREE.trace.read("weights") - CAUSAL.trace.read("weights")
    place = tuple(int(at) for at in np.unravel_index(np.abs(by_hand).argmax(), by_hand.shape))
    assert bar
    assert bar.largest == Cell("weights", place, None, ComparisonSide.CHANGE)
    head, query, key = place
    words = ["Your", "journey", "starts", "with", "one", "step"]
    value = format_signed(float(by_hand[place]))
    named = f"{words[query]} → {words[key]} in head {head + 1}"
    assert bar.result == f"Largest difference: {value}, {named}."


def test_what_differs_between_a_and_b_is_named() -> None:
    document = Document()
    assert describe_setting_differences(document, document) == ()
    changed = (
        document.with_setting("causal", False)
        .with_setting("bias", True)
        .with_setting("temperature", 2.0)
    )
    said = describe_setting_differences(document, changed)
    assert said == ("bias in Q, K, V: off → on", "temperature: 1 → 2", "mask: causal → none")
    assert describe_setting_differences(document, document.with_setting("text", "a")) == (
        "the text",
    )
    own = document.with_setting("own_mask", None).with_setting("projection", Projection.NONE)
    assert "projection: linear layers → none: Q = K = V = X" in describe_setting_differences(
        document, own
    )


def test_many_differences_are_counted() -> None:
    document = Document()
    other = (
        document.with_setting("causal", False)
        .with_setting("seed", 5)
        .with_setting("temperature", 2.0)
    )
    other = other.with_setting("text", "a b").with_setting("bias", True)
    comparison = Comparison(ComparisonKind.KEPT, CAUSAL, document)
    bar = present_comparison(resolved(FREE, View(comparison=comparison), other))
    assert bar
    assert ": the text, " in bar.summary
    assert bar.summary.endswith(" and 2 more.")
    same = present_comparison(resolved(FREE, View(comparison=comparison), document))
    assert same
    assert same.summary.startswith("A is the saved state")


@pytest.mark.parametrize("against", ComparisonKind)
def test_a_cell_of_aggregated_heads_is_compared_if_they_are_shown(against: ComparisonKind) -> None:
    live = a_run(seed=3, **DROPS)
    cell = Cell("weights", (2, 1), HeadAggregate.MEAN, ComparisonSide.B)
    kept = a_run(**DROPS) if against is ComparisonKind.KEPT else None
    view = View(
        comparison=Comparison(against, kept), folds=frozenset({HeadAggregate.MEAN}), hovered=cell
    )
    readout = present(Document(), view, live, None, False, None).panel(CELL_PANEL)
    assert readout
    assert len(readout.additional_sentences) == (3 if kept else 0)
    if kept:
        a, b = (one.trace.read("weights")[:, 2, 1].mean() for one in (kept, live))
        assert readout.additional_sentences[:2] == (f"A {a:.4f}", f"B {b:.4f}")


def test_only_the_heads_that_a_has_are_compared() -> None:
    view = a_view(a_run(heads=1), heads=frozenset({1}), folds=frozenset({HeadAggregate.MEAN}))
    shown = board(FREE, view)
    assert titles(shown) == ["Weights A", "Weights B"]
    assert all(shown.columns)


def test_signs_are_written() -> None:
    assert [format_signed(one) for one in (0.25, -0.25, 0.0)] == ["+0.2500", "−0.2500", "0.0000"]


# ------------------------------------------------------------------------------ suspended


@pytest.mark.parametrize(
    "fields",
    [{"playhead": PlaybackState(PlaybackPosition("weights"))}, {"guess": Prediction("weights")}],
)
def test_a_comparison_is_suspended_during_playback(fields: dict[str, Any]) -> None:
    view = a_view(CAUSAL, **fields)
    assert not [one for one in board(FREE, view).heatmaps if one.part is not ComparisonSide.PLAIN]
    bar = present_comparison(resolved(FREE, view))
    assert bar
    assert (bar.result, bar.largest) == (PAUSED_NOTICE, None)


def test_prefetching_reads_everything_that_is_needed() -> None:
    view = a_view(a_run(LONG, seed=2), room=16)
    live = a_run(LONG)
    assert needs(live, view) != needs(live, replace(view, comparison=None))
    warm(live, view)
    holdings = [live.trace.cached_stage_tensor(name) for name in live.trace.names]
    assert view.comparison
    before = [held.cached_keys for held in holdings], len(view.comparison.derived_tensors)
    present(Document(), view, live, None, False, None)
    assert before == ([held.cached_keys for held in holdings], len(view.comparison.derived_tensors))
