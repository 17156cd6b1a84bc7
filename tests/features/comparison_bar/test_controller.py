"""Comparisons with keyboard and mouse: of A and B with one cursor, of heads, of dropout samples."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QSpinBox, QToolButton

from tests.support.window_input import CONTROL, Hand
from visualizer.attention import cached_tensor, masks
from visualizer.attention.spec import MaskKind
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL, PAUSED_NOTICE
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session import dropout_samples
from visualizer.session.cell_address import Cell, ComparisonSide

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.support.playback_viewer import Viewer
    from tests.support.window_fixtures import Gate, Open
    from visualizer.features.comparison_bar.widget import ComparisonBar
    from visualizer.heatmap.board import Heatmap

LONG = " ".join(f"w{at}" for at in range(64))


def bar(hand: Hand) -> ComparisonBar:
    return hand.window.compare_bar


def press(hand: Hand, key: Qt.Key, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
    hand.press(key, modifiers)
    hand.settle()


def run(hand: Hand, command: str) -> None:
    hand.trigger(command)
    hand.settle()


def button(hand: Hand, name: str) -> QToolButton:
    (found,) = (one for one in bar(hand).findChildren(QToolButton) if one.text() == name)
    return found


def click(hand: Hand, name: str) -> None:
    hand.until(button(hand, name).isVisible)  # the next events lay out the row
    hand.click(button(hand, name))
    hand.settle()


def part(hand: Hand, part: ComparisonSide, head: int = 0, stage: str = "weights") -> Heatmap:
    return next(
        heatmap
        for heatmap in hand.shown.heatmaps
        if (heatmap.part, heatmap.head, heatmap.stage) == (part, head, stage)
    )


def mask(hand: Hand) -> MaskKind:
    return hand.window.workspace.document.spec.mask


def titles(hand: Hand) -> list[str]:
    return [column[0].title for column in hand.shown.columns]


@pytest.fixture
def kept(hand: Hand) -> Hand:
    """Keep a run with the mask as A; B has no mask."""
    hand.settle()
    run(hand, "comparison.keep_as_a")
    press(hand, Qt.Key.Key_M)
    return hand


def test_a_b_and_the_difference_are_shown_for_one_cell(kept: Hand) -> None:
    assert titles(kept) == ["Weights A", "Weights B", "B − A"]
    assert bar(kept).summary.text().endswith(": mask: causal → none.")
    a, b, change = (
        part(kept, one).values[1, 0]
        for one in (ComparisonSide.A, ComparisonSide.B, ComparisonSide.CHANGE)
    )
    assert change == pytest.approx(b - a, abs=1e-6)
    for one in (ComparisonSide.A, ComparisonSide.B, ComparisonSide.CHANGE):
        kept.hover(Cell("weights", (0, 1, 0), None, one))
        kept.settle()
        readout = kept.window.workspace.screen.panel(CELL_PANEL)
        assert readout
        assert readout.additional_sentences[:2] == (f"A {a:.4f}", f"B {b:.4f}")
        assert readout.value == f"{b:.4f}"
        assert f"A {a:.4f}" in kept.window.panes["Explain"].value.text()
    press(kept, Qt.Key.Key_Z)
    assert not part(kept, ComparisonSide.CHANGE).values.any()
    assert bar(kept).summary.text().startswith("A is the saved state")
    assert bar(kept).result.text() == "No difference."


def test_the_kept_run_is_the_previous_run(hand: Hand) -> None:
    hand.settle()
    kept_run = hand.window.workspace.run
    assert kept_run
    before = kept_run.trace.read("weights").copy()
    run(hand, "comparison.keep_as_a")
    for command in (
        *("module.toggle_causal_mask", "module.toggle_training_mode"),
        *2 * ("workspace.undo",),
    ):
        run(hand, command)
    np.testing.assert_array_equal(part(hand, ComparisonSide.A, 1).values, before[1])


def test_the_largest_difference_can_be_pinned(kept: Hand) -> None:
    largest = kept.window.workspace.screen.panel(COMPARISON_PANEL)
    assert largest
    run(kept, "comparison.go_to_largest")
    assert kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == largest.largest
    assert "Largest difference: −" in bar(kept).result.text()
    kept.window.controllers.cell_selection_controller.unpin_cell()
    click(kept, "Go to cell")
    assert kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == largest.largest


def test_arrow_keys_move_from_a_to_b_to_the_difference(kept: Hand) -> None:
    kept.click_cell(Cell("weights", (1, 2, 5), None, ComparisonSide.A))
    kept.settle()
    for end in (ComparisonSide.B, ComparisonSide.CHANGE, ComparisonSide.CHANGE):
        for _ in range(6):
            kept.key(Qt.Key.Key_Right)
            kept.settle()
        pinned = kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned
        assert pinned
        assert (pinned.part, pinned.place[:2]) == (end, (1, 2))
    for _ in range(20):
        kept.key(Qt.Key.Key_Left)
    kept.settle()
    assert kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == Cell(
        "weights", (1, 2, 0), None, ComparisonSide.A
    )


def test_a_and_b_can_be_swapped(kept: Hand) -> None:
    change = part(kept, ComparisonSide.CHANGE).values
    run(kept, "comparison.swap")
    assert mask(kept) is MaskKind.CAUSAL
    np.testing.assert_allclose(part(kept, ComparisonSide.CHANGE).values, -change, atol=1e-7)
    assert bar(kept).summary.text().endswith(": mask: none → causal.")
    press(kept, Qt.Key.Key_Z)
    assert mask(kept) is MaskKind.NONE


def test_stopping_restores_the_stages(kept: Hand) -> None:
    kept.click_cell(Cell("weights", (0, 1, 0), None, ComparisonSide.CHANGE))
    click(kept, "Stop")
    assert kept.stages == ["scores", "weights", "context"]
    assert not bar(kept).isVisible()
    assert kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == Cell(
        "weights", (0, 1, 0)
    )
    assert {heatmap.part for heatmap in kept.shown.heatmaps} == {ComparisonSide.PLAIN}


def test_the_flow_board_ends_a_comparison(kept: Hand) -> None:
    kept.click(kept.window.view_bar.buttons["view.show_flow"])
    kept.settle()
    assert kept.window.workspace.requested_view.comparison is None
    assert kept.window.workspace.resolved_requested_view
    assert kept.window.workspace.resolved_requested_view.flow


def test_stages_chosen_during_a_comparison_are_kept(kept: Hand) -> None:
    kept.toggle_stage("scores")
    kept.settle()
    assert {*kept.stages} == {"scores", "weights"}
    click(kept, "Stop")
    assert kept.stages == ["scores", "weights"]


def test_the_original_stages_are_restored_after_two_comparisons(kept: Hand) -> None:
    run(kept, "comparison.compare_heads")
    assert {*kept.stages} == {"weights"}
    click(kept, "Stop")
    assert kept.stages == ["scores", "weights", "context"]


def test_a_is_the_shown_run_rather_than_the_pending_one(
    gate: Gate, open_window: Open, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, open_window())
    gate.let_through()
    hand.settle()
    hand.press(Qt.Key.Key_M)
    hand.until(lambda: len(gate.asked) == 2)
    hand.trigger("comparison.keep_as_a")
    gate.open()
    hand.settle()
    assert bar(hand).summary.text().endswith(": mask: causal → none.")


def test_texts_of_different_length_are_reported(kept: Hand) -> None:
    kept.type_sentence("a b c d e f g h")
    kept.settle()
    assert bar(kept).result.text() == "A has 6 tokens; B has 8. These values cannot be compared."
    assert titles(kept) == ["Weights A", "Weights B"]
    assert not button(kept, "Go to cell").isEnabled()
    slot = next(slot for slot in kept.board.board_layout.slots if slot.heatmap.is_unlinked)
    assert slot.has_row_labels
    kept.click(kept.board.viewport(), slot.cell_area(0, 0).center().toPoint())
    assert kept.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned is None
    kept.type_sentence("a b c d e f")
    kept.settle()
    assert titles(kept) == ["Weights A", "Weights B", "B − A"]


def test_a_comparison_is_paused_during_playback(viewer: Viewer) -> None:
    hand = viewer.hand
    run(hand, "comparison.keep_as_a")
    viewer.key(Qt.Key.Key_PageDown)
    assert bar(hand).result.text() == PAUSED_NOTICE
    assert {heatmap.part for heatmap in hand.shown.heatmaps} == {ComparisonSide.PLAIN}
    viewer.key(Qt.Key.Key_End)
    assert titles(hand) == ["Weights A", "Weights B", "B − A"]
    viewer.key(Qt.Key.Key_PageDown)
    run(hand, "comparison.keep_as_a")
    assert titles(hand) == ["Weights A", "Weights B", "B − A"]


# ------------------------------------------------------------------------------------- heads


def test_one_of_twelve_heads_is_compared_with_another(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.window.workspace.change_setting("d_out", 12)
    hand.window.workspace.change_setting("heads", 12)
    hand.settle()
    hand.board.setFocus()
    run(hand, "comparison.compare_heads")
    assert titles(hand) == ["Weights, head 1", "Weights, head 2", "Head 2 − head 1"]
    hand.choose("Second head", "Head 12")
    hand.settle()
    one, other, change = hand.shown.heatmaps
    assert (one.head, other.head) == (0, 11)
    np.testing.assert_allclose(change.values, other.values - one.values, atol=1e-6)
    hand.hover(Cell("weights", (0, 40, 10)))
    hand.settle()
    assert f"Head 12: {other.values[40, 10]:.4f}" in hand.window.panes["Explain"].value.text()
    hand.choose("First head", "Head 12")
    hand.settle()
    assert hand.window.workspace.view.comparison is not None
    assert hand.window.workspace.view.comparison.heads == (11, 0)


def test_the_pinned_head_is_compared_with_the_next(hand: Hand) -> None:
    hand.click_cell(Cell("scores", (1, 2, 3)))
    run(hand, "comparison.compare_heads")
    assert titles(hand) == ["Scores, head 2", "Scores, head 1", "Head 1 − head 2"]


def test_the_head_in_front_is_compared_with_the_next(hand: Hand) -> None:
    hand.window.controllers.view_controller.show_head_flow(1)
    hand.settle()
    hand.window.controllers.comparison_controller.compare_heads()
    hand.settle()
    comparison = hand.window.workspace.view.comparison
    assert comparison is not None
    assert comparison.heads == (1, 0)


@pytest.mark.parametrize(("chosen", "heads"), [("Head 2", (2, 4)), ("Head 4", (4, 1))])
def test_two_heads_can_be_chosen_after_the_number_of_heads_decreases(
    hand: Hand, chosen: str, heads: tuple[int, int]
) -> None:
    hand.window.workspace.change_setting("d_out", 8)
    hand.window.workspace.change_setting("heads", 8)
    hand.settle()
    hand.window.controllers.cell_selection_controller.follow_link(Cell("scores", (6, 2, 3)))
    hand.settle()
    run(hand, "comparison.compare_heads")
    hand.type_number("heads", "4")
    hand.settle()
    assert bar(hand).result.text() == "There are only 4 heads."
    assert [box.currentText() for box in bar(hand).head_boxes] == ["Head 4", "Head 4"]
    hand.choose("First head", chosen)
    hand.settle()
    one, other = heads
    assert titles(hand) == [
        f"Scores, head {one}", f"Scores, head {other}", f"Head {other} − head {one}",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------- samples


def off(hand: Hand) -> float:
    return float(np.abs(part(hand, ComparisonSide.CHANGE, stage="dropped").values).mean())


def test_the_mean_of_samples_approaches_the_weights(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.window.workspace.change_setting("dropout", 0.5)
    hand.settle()
    run(hand, "comparison.compare_samples")
    assert titles(hand)[2:] == ["Mean of 1 sample", "Mean − weights"]
    mean, sample = (
        part(hand, one, stage="dropped") for one in (ComparisonSide.MEAN, ComparisonSide.PLAIN)
    )
    np.testing.assert_allclose(mean.values, sample.values, atol=1e-7)
    before = off(hand)
    for count in (2, 4, 8, 16):
        click(hand, "Double")
        assert bar(hand).count.value() == count
    assert off(hand) < before / 3
    click(hand, "+1")
    click(hand, "Halve")
    assert bar(hand).count.value() == 9
    box = hand.window.findChild(QSpinBox, "Samples")
    assert box
    box.setFocus(Qt.FocusReason.TabFocusReason)
    box.selectAll()
    QTest.keyClicks(box, "256")
    hand.key(Qt.Key.Key_Return)
    hand.settle()
    assert titles(hand)[2] == "Mean of 256 samples"
    assert off(hand) < before / 12
    assert not button(hand, "Double").isEnabled()


def test_a_longer_text_limits_the_number_of_samples(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropout_samples, "MAX_DRAWN_CELLS", 2**16)  # 8 samples
    hand.window.workspace.change_setting("dropout", 0.5)
    hand.settle()
    run(hand, "comparison.compare_samples")
    for _ in range(8):
        click(hand, "Double")
    assert titles(hand)[2] == "Mean of 256 samples"
    hand.paste_sentence(LONG)
    hand.settle()
    assert bar(hand).count.value() == 8
    assert titles(hand)[2] == "Mean of 8 samples"
    assert "seeds 0 to 7:" in bar(hand).summary.text()
    hand.hover(Cell("dropped", (0, 2, 1), None, ComparisonSide.CHANGE))
    hand.settle()
    assert "Mean of 8: " in hand.window.panes["Explain"].value.text()
    comparison = hand.window.workspace.view.comparison
    assert comparison
    assert comparison.tally.drawn == 8
    click(hand, "Halve")
    assert titles(hand)[2] == "Mean of 4 samples"


def test_another_seed_gives_another_sample(hand: Hand) -> None:
    hand.window.workspace.change_setting("dropout", 0.5)
    hand.settle()
    run(hand, "comparison.compare_samples")
    before = part(hand, ComparisonSide.MEAN, stage="dropped").values
    run(hand, "workspace.resample dropout_seed")
    assert not np.array_equal(part(hand, ComparisonSide.MEAN, stage="dropped").values, before)
    assert "seed 1:" in bar(hand).summary.text()


def test_a_missing_dropout_is_reported(hand: Hand) -> None:
    hand.settle()
    run(hand, "comparison.compare_samples")
    assert bar(hand).result.text().startswith("Set a dropout rate above 0")
    assert not bar(hand).count.isVisible()
    assert titles(hand) == ["Weights"]


# -------------------------------------------------------------------------- off the GUI thread


def test_differences_are_computed_off_the_gui_thread(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noting(make: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*asked: Any) -> Any:
            threads.append(threading.get_ident())
            return make(*asked)

        return noted

    monkeypatch.setattr(
        cached_tensor,
        "subtract_tensors",
        noting(cached_tensor.subtract_tensors),
    )
    monkeypatch.setattr(dropout_samples, "draw_keep_mask", noting(masks.draw_keep_mask))
    hand.window.workspace.change_setting("dropout", 0.5)
    hand.settle()
    run(hand, "comparison.keep_as_a")
    press(hand, Qt.Key.Key_M)
    run(hand, "comparison.swap")
    run(hand, "comparison.go_to_largest")
    run(hand, "comparison.compare_heads")
    run(hand, "comparison.compare_samples")
    click(hand, "Double")
    hand.hover(Cell("dropped", (0, 2, 1), None, ComparisonSide.CHANGE))
    hand.settle()
    assert len(threads) > 5
    assert threading.main_thread().ident not in threads


def test_the_bar_does_not_widen_the_window(hand: Hand) -> None:
    for pane in ("Lines", "Heads"):
        hand.trigger(f"pane.toggle {pane}")
    hand.window.resize(1280, 800)
    hand.settle()
    run(hand, "comparison.compare_heads")
    hand.until(lambda: bar(hand).isVisible())
    assert hand.window.width() == 1280


# ---------------------------------------------------------------------------- narrow windows


def test_the_bar_fits_into_a_narrow_window(kept: Hand) -> None:
    kept.narrow(440)
    row = bar(kept).controls
    kept.until(lambda: kept.window.width() == 440)
    assert row.overflowed_widgets() == []
    assert bar(kept).result.width() >= 100
