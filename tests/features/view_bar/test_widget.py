"""The bar above the heatmaps: stages, heads, head aggregates and zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.window_input import CONTROL, LEFT, SHIFT
from tests.support.zoom_gestures import press, run, seen, turn
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.features.view_bar.widget import (
    AGGREGATE_LABELS,
    MAX_HEAD_CHIPS,
    ViewBar,
)
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import ColourLimits

if TYPE_CHECKING:
    from tests.support.window_input import Hand

BOTH = CONTROL | SHIFT


@pytest.fixture
def three(hand: Hand) -> Hand:
    """A window with three heads."""
    give_heads(hand, 3)
    return hand


def give_heads(hand: Hand, count: int) -> None:
    hand.type_number("d_out", str(2 * count))
    hand.type_number("heads", str(count))
    hand.settle()
    QApplication.processEvents()


def bar(hand: Hand) -> ViewBar:
    return hand.window.view_bar


def heads(hand: Hand) -> list[int | None]:
    """Return the heads that have a row of panels."""
    return [heatmap.head for heatmap in hand.shown.columns[0]]


def click(hand: Hand, head: int) -> None:
    hand.click(bar(hand).heads[head])
    hand.settle()


def double_click(hand: Hand, head: int) -> None:
    """Send the events of a real double click: a click, then the second press and release."""
    chip = bar(hand).heads[head]
    hand.click(chip)
    hand.settle()
    at = chip.rect().center()
    event = QMouseEvent(
        QEvent.Type.MouseButtonDblClick,
        QPointF(at),
        QPointF(chip.mapToGlobal(at)),
        LEFT,
        LEFT,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(chip, event)
    QTest.mouseRelease(chip, LEFT, pos=at)
    hand.settle()


def checked(hand: Hand) -> list[int]:
    return [chip.item for chip in bar(hand).heads if chip.isChecked()]


# -------------------------------------------------------------------------------------- layouts


def layout(hand: Hand) -> str:
    """Return the name of the layout, which depends on the panels."""
    columns = hand.shown.columns
    assert heads(hand) == [0, 1, 2]
    return "Stages × heads" if len(columns) > 1 else "One stage, all heads"


def test_layouts_have_shortcuts(three: Hand) -> None:
    for key, words in (
        (Qt.Key.Key_3, "One stage, all heads"),
        (Qt.Key.Key_2, "Stages × heads"),
    ):
        press(three, key)
        assert layout(three) == words


def test_the_single_stage_is_that_of_the_pinned_cell(three: Hand) -> None:
    pinned = Cell("scores", (1, 3, 2))
    three.click_cell(pinned)
    three.leave()
    press(three, Qt.Key.Key_3)
    assert three.stages == ["scores"]
    assert three.window.workspace.view.pinned == pinned


def test_the_single_stage_is_the_weights_if_no_cell_is_pinned(three: Hand) -> None:
    press(three, Qt.Key.Key_3)
    assert three.stages == ["weights"]


def test_the_stages_menu_shows_and_hides_stages(three: Hand) -> None:
    button = bar(three).stages_button
    assert button.accessibleName() == "Stages: 3 of 11"
    three.choose_in_menu(button, "Scores")
    three.choose_in_menu(button, "Context")
    assert three.stages == ["weights"]
    assert button.accessibleName() == "Stage: Weights"
    three.choose_in_menu(button, "Weights")  # the last stage stays visible
    assert three.stages == ["weights"]
    assert three.read_menu(button)["Weights"]


# ---------------------------------------------------------------------------------------- heads


def test_clicks_hide_and_show_a_head(three: Hand) -> None:
    assert (heads(three), checked(three)) == ([0, 1, 2], [0, 1, 2])
    click(three, 1)
    assert (heads(three), checked(three)) == ([0, 2], [0, 2])
    click(three, 1)
    assert (heads(three), checked(three)) == ([0, 1, 2], [0, 1, 2])
    assert three.window.workspace.view.heads is None


def test_the_last_head_cannot_be_hidden(three: Hand) -> None:
    for head in (0, 1, 2, 2):
        click(three, head)
    assert (heads(three), checked(three)) == ([2], [2])


def test_the_last_head_can_be_hidden_with_an_aggregate(three: Hand) -> None:
    three.click(bar(three).buttons["view.toggle_aggregate mean"])
    three.settle()
    for head in (0, 1, 2):
        click(three, head)
    assert {heatmap.fold for heatmap in three.shown.heatmaps} == {HeadAggregate.MEAN}
    three.click(bar(three).buttons["view.toggle_aggregate mean"])
    three.settle()
    assert heads(three) == [0, 1, 2]  # at least one row stays visible


@pytest.mark.parametrize("has_fold", [False, True])
def test_double_clicks_show_only_one_head_and_all_heads(three: Hand, has_fold: bool) -> None:
    folds: list[int | None] = [None] * has_fold
    if has_fold:
        run(three, "view.toggle_aggregate mean")
    for head in (1, 0):
        double_click(three, head)
        assert (heads(three), checked(three)) == ([head, *folds], [head])
    double_click(three, 0)
    assert (heads(three), checked(three)) == ([0, 1, 2, *folds], [0, 1, 2])


def test_a_double_click_on_a_hidden_head_shows_only_this_head(three: Hand) -> None:
    click(three, 1)
    double_click(three, 1)
    assert heads(three) == [1]


def test_the_pinned_cell_moves_to_a_double_clicked_head(three: Hand) -> None:
    for head in (1, 0):
        three.click_cell(Cell("weights", (head, 3, 2)))
        three.leave()
        double_click(three, 1)
        assert heads(three) == [1]
        assert three.window.workspace.view.pinned == Cell("weights", (1, 3, 2))
        double_click(three, 1)
        three.window.controllers.cell_selection_controller.unpin_cell()


def test_hiding_a_head_unpins_its_cell(three: Hand) -> None:
    three.click_cell(Cell("weights", (1, 3, 2)))
    three.leave()
    click(three, 1)
    assert three.window.workspace.view.pinned is None
    assert heads(three) == [0, 2]


def test_commands_step_through_the_heads(three: Hand) -> None:
    found = []
    for step in (1, 1, 1, 1, -1, -1, -1):
        run(three, f"view.step_head {step}")
        (alone,) = heads(three)
        found.append(alone)
    assert found == [0, 1, 2, 0, 2, 1, 0]


def test_the_next_head_follows_the_single_visible_head(three: Hand) -> None:
    run(three, "view.step_head 1")
    run(three, "view.step_head 1")
    assert heads(three) == [1]
    # Like a click on a link.
    three.window.controllers.cell_selection_controller.follow_link(Cell("weights", (0, 1, 1)))
    three.settle()
    assert heads(three) == [0, 1]
    run(three, "view.step_head 1")
    assert heads(three) == [2]


def test_many_heads_are_listed_in_a_menu(hand: Hand) -> None:
    hand.type_sentence("one two three")
    give_heads(hand, MAX_HEAD_CHIPS + 1)
    shown = bar(hand)
    assert shown.heads == []
    assert not shown.chips.isVisible()
    assert shown.heads_button.isVisible()
    assert (
        shown.heads_button.accessibleName()
        == f"Heads: {MAX_HEAD_CHIPS + 1} of {MAX_HEAD_CHIPS + 1}"
    )
    actions = shown.menu.actions()
    assert [action.text() for action in actions] == [
        f"Head {head + 1}" for head in range(MAX_HEAD_CHIPS + 1)
    ]
    actions[3].trigger()
    hand.settle()
    assert 3 not in heads(hand)
    assert shown.heads_button.accessibleName() == f"Heads: {MAX_HEAD_CHIPS} of {MAX_HEAD_CHIPS + 1}"
    assert [action.isChecked() for action in actions].index(False) == 3
    give_heads(hand, 2)
    assert len(shown.heads) == 2
    assert not shown.heads_button.isVisible()


def test_several_heads_are_chosen_while_the_menu_is_open(hand: Hand) -> None:
    hand.type_sentence("one two three")
    give_heads(hand, MAX_HEAD_CHIPS + 1)
    menu = hand.window.view_bar.menu
    menu.popup(hand.window.view_bar.heads_button.mapToGlobal(QPoint(0, 20)))
    hand.until(menu.isVisible)
    for head in (2, 5):
        QTest.mouseClick(menu, LEFT, pos=menu.actionGeometry(menu.actions()[head]).center())
        hand.settle()
        assert menu.isVisible()
    assert [action.isChecked() for action in menu.actions()].count(False) == 2
    QTest.keyClick(menu, Qt.Key.Key_Escape)
    assert not menu.isVisible()


def test_the_last_of_many_heads_stays_checked_in_the_menu(hand: Hand) -> None:
    hand.type_sentence("one two three")
    give_heads(hand, MAX_HEAD_CHIPS + 1)
    hand.window.controllers.view_controller.solo_head(3)
    hand.settle()
    shown = bar(hand)
    hand.choose_in_menu(shown.heads_button, "Head 4")
    assert heads(hand) == [3]
    read = hand.read_menu(shown.heads_button)
    assert [head for head, is_checked in read.items() if is_checked] == ["Head 4"]


def test_a_single_head_has_only_a_choice_of_stages(hand: Hand) -> None:
    give_heads(hand, 1)
    assert bar(hand).heads == []
    assert bar(hand).stages_button.isVisible()
    for by in HeadAggregate:
        assert not bar(hand).buttons[f"view.toggle_aggregate {by}"].isVisible()


def test_a_chip_has_the_colour_and_name_of_its_head(three: Hand) -> None:
    names = [chip.accessibleName() for chip in bar(three).heads]
    assert names == ["Head 1", "Head 2", "Head 3"]
    pictures = [
        chip.icon().pixmap(8, 8).toImage().pixelColor(4, 4).name() for chip in bar(three).heads
    ]
    assert len(set(pictures)) == 3
    chips = bar(three).heads
    three.window.set_colour_scheme("dark")
    assert not set(chips) & set(bar(three).heads)  # they are new widgets
    assert checked(three) == [0, 1, 2]


# ---------------------------------------------------------------------------------- aggregates


@pytest.mark.parametrize("by", HeadAggregate)
def test_an_aggregate_has_a_row_while_its_button_is_checked(three: Hand, by: HeadAggregate) -> None:
    button = bar(three).buttons[f"view.toggle_aggregate {by}"]
    assert button.text() == AGGREGATE_LABELS[by]
    three.click(button)
    three.settle()
    assert button.isChecked()
    assert three.shown.columns[0][-1].fold is by
    assert len(three.shown.columns[0]) == 4
    three.click(button)
    three.settle()
    assert not button.isChecked()
    assert len(three.shown.columns[0]) == 3


def test_the_button_of_an_aggregate_stays_checked_during_playback(three: Hand) -> None:
    button = bar(three).buttons["view.toggle_aggregate mean"]
    three.click(button)
    three.settle()
    three.board.setFocus()
    for _ in range(2):
        three.key(Qt.Key.Key_Space)
    three.settle()
    assert three.window.workspace.screen.resolved
    assert three.window.workspace.screen.resolved.focus
    assert button.isChecked()
    three.click(button)
    three.settle()
    assert not button.isChecked()
    assert three.window.workspace.view.folds == frozenset()


def test_hiding_an_aggregate_unpins_its_cell(three: Hand) -> None:
    run(three, "view.toggle_aggregate mean")
    three.window.controllers.cell_selection_controller.follow_link(
        Cell("weights", (3, 2), HeadAggregate.MEAN)
    )
    three.settle()
    run(three, "view.toggle_aggregate max")
    assert three.window.workspace.view.pinned == Cell("weights", (3, 2), HeadAggregate.MEAN)
    run(three, "view.toggle_aggregate mean")
    assert three.window.workspace.view.pinned is None


# ----------------------------------------------------------------------------------------- zoom


def test_buttons_zoom_in_out_and_reset(hand: Hand) -> None:
    hand.paste_sentence(" ".join(f"w{number}" for number in range(30)))
    hand.settle()
    shown = bar(hand)
    closer, further, whole = (shown.buttons[f"view.{name}"] for name in ("zoom_in", "zoom_out",
                                                                         "reset_zoom"))  # fmt: skip
    assert shown.part.text() == ""
    assert (closer.isEnabled(), further.isEnabled(), whole.isEnabled()) == (True, False, False)
    hand.click(closer)
    hand.settle()
    assert shown.part.toolTip() == "Showing queries 6–25 and keys 6–25 of 30"
    assert shown.part.text() == "6–25 × 6–25 of 30"
    assert further.isEnabled()
    hand.click(further)
    hand.settle()
    assert seen(hand) is None
    hand.click(closer)
    hand.settle()
    hand.click(whole)
    hand.settle()
    assert (seen(hand), shown.part.text()) == (None, "")


def test_the_visible_range_is_shown_while_it_changes(hand: Hand) -> None:
    turn(hand, hand.point(Cell("weights", (0, 0, 5))), 2)
    zoom = seen(hand)
    assert zoom
    said = bar(hand).part.text()
    assert said.startswith(f"{zoom.queries.start + 1}–{zoom.queries.stop} × ")
    assert bar(hand).part.toolTip().endswith(" of 6")


# ---------------------------------------------------------------------------- narrow windows


def test_controls_that_do_not_fit_are_in_a_menu(hand: Hand) -> None:
    give_heads(hand, 8)
    hand.narrow(440)
    shown = bar(hand)
    hand.until(shown.more.isVisible)
    assert shown.more.accessibleName() == "More view controls"
    menu = ["Visible stages", "Visible heads", "Heads: mean", "Heads: maximum"]
    menu += ["Zoom out", "Reset zoom", "Zoom in"]
    assert {*menu} >= {*hand.read_menu(shown.more)} > set()
    seen = [widget for widget in (shown.range, shown.more) if widget.isVisible()]
    assert len(seen) == 2
    assert all(one.visibleRegion().boundingRect() == one.rect() for one in seen)


def test_the_overflow_menu_has_the_effect_of_the_controls(hand: Hand) -> None:
    give_heads(hand, 8)
    hand.narrow(440)
    shown = bar(hand)
    hand.until(shown.more.isVisible)
    hand.choose_in_menu(shown.more, "Visible heads", "Head 2")
    assert heads(hand) == [0, 2, 3, 4, 5, 6, 7]
    hand.choose_in_menu(shown.more, "Visible stages", "Context")
    assert hand.stages == ["scores", "weights"]


# ---------------------------------------------------------------------------------------- range


def test_the_chosen_range_and_its_limits_are_shown(hand: Hand) -> None:
    said = bar(hand).range.accessibleName
    assert said() == "Range: automatic, 0 to 0.5+"
    for text, words in (
        ("Range: per row", "Range: per row"),
        ("Range: per panel", "Range: per panel"),
        ("Range: 0 to 1", "Range: 0 to 1"),
        ("Range: automatic", "Range: automatic, 0 to 0.5+"),
    ):
        hand.choose_in_menu(bar(hand).range, text)
        assert said() == words
        assert bar(hand).range.text() == f"{words} ▾"
        assert hand.read_menu(bar(hand).range)[text]
    assert "Scores ±" in bar(hand).range.accessibleDescription()


def test_the_automatic_range_follows_the_values(hand: Hand) -> None:
    hand.paste_sentence(" ".join(f"w{number}" for number in range(30)))
    hand.settle()
    assert bar(hand).range.accessibleName() == "Range: automatic, 0 to 0.2+"
    hand.choose_in_menu(bar(hand).range, "Range: 0 to 1")
    colour = hand.panel("weights").colour
    assert (colour.low, colour.high, colour.limits) == (0, 1, ColourLimits.SHARED)
    assert bar(hand).range.accessibleName() == "Range: 0 to 1"


def test_the_range_after_dropout_includes_the_scaled_weight_1(hand: Hand) -> None:
    hand.type_number("dropout", "0.2")
    hand.settle()
    hand.choose_in_menu(bar(hand).range, "Range: 0 to 1")
    assert hand.panel("weights").colour.high == 1
    assert hand.panel("dropped").colour.high == 1.25
    assert "Weights 0 to 1, Dropout 0 to 1.25" in bar(hand).range.accessibleDescription()


def test_choosing_custom_limits_opens_their_pane(hand: Hand) -> None:
    hand.choose_in_menu(bar(hand).range, "Range: custom…")
    pane = hand.window.panes["Colours"]
    hand.until(pane.isVisible)
    box = pane.boxes["weights", "high"]
    pane.ensureWidgetVisible(box)
    QTest.keyClick(box, Qt.Key.Key_A, CONTROL)
    QTest.keyClicks(box, "0.5")
    QTest.keyClick(box, Qt.Key.Key_Return)
    hand.settle()
    assert bar(hand).range.accessibleName() == "Range: custom, 0 to 0.5"


def test_without_weights_the_range_is_that_of_the_first_stage(hand: Hand) -> None:
    hand.window.controllers.view_controller.show_stage_alone("scores")
    hand.settle()
    high = hand.panel("scores").colour.high
    assert bar(hand).range.accessibleName() == f"Range: automatic, ±{high:.3g}"
