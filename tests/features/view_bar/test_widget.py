"""The bar above the heatmaps: layouts, heads, head aggregates and zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox

from tests.support.window_input import CONTROL, LEFT, SHIFT
from tests.support.zoom_gestures import press, roll, seen, turn
from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.features.view_bar.presenter import VIEW_CONTROLS
from visualizer.features.view_bar.widget import FOLDS, LAYOUTS, MOST_CHIPS, ViewBar
from visualizer.session.cell_address import Cell

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
    return hand.window.viewbar


def heads(hand: Hand) -> list[int | None]:
    """The heads that have a row of panels."""
    return [heatmap.head for heatmap in hand.shown.columns[0]]


def choose(hand: Hand, box: QComboBox, words: str) -> None:
    """Open a list and choose by the keys."""
    hand.click(box)
    QTest.keyClick(box.view(), Qt.Key.Key_Home)
    for _ in range(box.findText(words)):
        QTest.keyClick(box.view(), Qt.Key.Key_Down)
    QTest.keyClick(box.view(), Qt.Key.Key_Return)
    hand.activate()
    hand.settle()


def click(hand: Hand, head: int) -> None:
    hand.click(bar(hand).heads[head])
    hand.settle()


def double_click(hand: Hand, head: int) -> None:
    """As a hand does it: a click, then the second press and its release."""
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
    """Name the layout by the panels that there are."""
    columns = hand.shown.columns
    if len(columns) > 1 and all(len(column) == 1 for column in columns):
        return "One head, large"
    assert heads(hand) == [0, 1, 2]
    return "Stages × heads" if len(columns) > 1 else "One stage, all heads"


def test_the_layouts_are_in_a_list(three: Hand) -> None:
    for words in ("One head, large", "Stages × heads", "One stage, all heads", "Stages × heads"):
        choose(three, bar(three).box, words)
        assert layout(three) == bar(three).box.currentText() == words


def test_the_layouts_have_keys(three: Hand) -> None:
    for key, words in (
        (Qt.Key.Key_O, "One stage, all heads"),
        (Qt.Key.Key_A, "Stages × heads"),
        (Qt.Key.Key_H, "One head, large"),
        (Qt.Key.Key_A, "Stages × heads"),
    ):
        press(three, key, BOTH)
        assert layout(three) == bar(three).box.currentText() == words


def test_one_stage_and_one_head_are_those_of_the_pinned_cell(three: Hand) -> None:
    pinned = Cell("scores", (1, 3, 2))
    three.click_cell(pinned)
    three.leave()
    press(three, Qt.Key.Key_O, BOTH)
    assert three.stages == ["scores"]
    press(three, Qt.Key.Key_A, BOTH)
    press(three, Qt.Key.Key_H, BOTH)
    assert set(heads(three)) == {1}
    assert three.window.workspace.view.pinned == pinned


def test_without_one_the_weights_stand_alone(three: Hand) -> None:
    press(three, Qt.Key.Key_O, BOTH)
    assert three.stages == ["weights"]


def test_the_list_says_what_is_seen_while_a_step_is_played(three: Hand) -> None:
    three.board.setFocus()
    three.key(Qt.Key.Key_Space)
    three.key(Qt.Key.Key_Space)
    three.settle()
    choose(three, bar(three).box, "One stage, all heads")
    layout = three.window.workspace.screen.panel(VIEW_CONTROLS).layout
    assert bar(three).box.currentText() == LAYOUTS[layout]


# ---------------------------------------------------------------------------------------- heads


def test_a_click_hides_a_head_and_another_shows_it(three: Hand) -> None:
    assert (heads(three), checked(three)) == ([0, 1, 2], [0, 1, 2])
    click(three, 1)
    assert (heads(three), checked(three)) == ([0, 2], [0, 2])
    click(three, 1)
    assert (heads(three), checked(three)) == ([0, 1, 2], [0, 1, 2])
    assert three.window.workspace.view.heads is None


def test_the_last_head_stays(three: Hand) -> None:
    for head in (0, 1, 2, 2):
        click(three, head)
    assert (heads(three), checked(three)) == ([2], [2])


def test_with_a_fold_the_last_head_can_go(three: Hand) -> None:
    three.click(bar(three).buttons["gaze.toggle_fold mean"])
    three.settle()
    for head in (0, 1, 2):
        click(three, head)
    assert {heatmap.fold for heatmap in three.shown.heatmaps} == {HeadAggregate.MEAN}
    three.click(bar(three).buttons["gaze.toggle_fold mean"])
    three.settle()
    assert heads(three) == [0, 1, 2]  # there is always something to look at


@pytest.mark.parametrize("has_fold", [False, True])
def test_a_double_click_shows_a_head_alone_and_again_all(three: Hand, has_fold: bool) -> None:
    folds: list[int | None] = [None] * has_fold
    if has_fold:
        press(three, Qt.Key.Key_M, BOTH)
    for head in (1, 0):
        double_click(three, head)
        assert (heads(three), checked(three)) == ([head, *folds], [head])
    double_click(three, 0)
    assert (heads(three), checked(three)) == ([0, 1, 2, *folds], [0, 1, 2])


def test_a_double_click_on_a_hidden_head_shows_it_alone(three: Hand) -> None:
    click(three, 1)
    double_click(three, 1)
    assert heads(three) == [1]


def test_a_double_click_holds_on_to_the_cell_that_is_pinned_there(three: Hand) -> None:
    for cell, kept in ((Cell("weights", (1, 3, 2)), True), (Cell("weights", (0, 3, 2)), False)):
        three.click_cell(cell)
        three.leave()
        double_click(three, 1)
        assert heads(three) == [1]
        assert three.window.workspace.view.pinned == (cell if kept else None)
        double_click(three, 1)
        three.window.cell_selection_controller.let_go()


def test_with_a_hidden_head_goes_the_cell_that_is_pinned_there(three: Hand) -> None:
    three.click_cell(Cell("weights", (1, 3, 2)))
    three.leave()
    click(three, 1)
    assert three.window.workspace.view.pinned is None
    assert heads(three) == [0, 2]


def test_heads_one_after_the_other_by_keys(three: Hand) -> None:
    found = []
    for key in (*4 * [Qt.Key.Key_N], *3 * [Qt.Key.Key_B]):
        press(three, key, BOTH)
        (alone,) = heads(three)
        found.append(alone)
    assert found == [0, 1, 2, 0, 2, 1, 0]


def test_the_next_head_is_the_one_after_that_alone_whatever_is_pinned(three: Hand) -> None:
    press(three, Qt.Key.Key_N, BOTH)
    press(three, Qt.Key.Key_N, BOTH)
    assert heads(three) == [1]
    three.window.cell_selection_controller.follow(
        Cell("weights", (0, 1, 1))
    )  # as a link leads there
    three.settle()
    assert heads(three) == [0, 1]
    press(three, Qt.Key.Key_N, BOTH)
    assert heads(three) == [2]


def test_many_heads_are_in_a_menu(hand: Hand) -> None:
    hand.type_sentence("one two three")
    give_heads(hand, MOST_CHIPS + 1)
    shown = bar(hand)
    assert shown.heads == []
    assert not shown.chips.isVisible()
    assert shown.many.isVisible()
    assert shown.many.text() == f"Heads: {MOST_CHIPS + 1} of {MOST_CHIPS + 1}"
    actions = shown.menu.actions()
    assert [action.text() for action in actions] == [
        f"Head {head + 1}" for head in range(MOST_CHIPS + 1)
    ]
    actions[3].trigger()
    hand.settle()
    assert 3 not in heads(hand)
    assert shown.many.text() == f"Heads: {MOST_CHIPS} of {MOST_CHIPS + 1}"
    assert [action.isChecked() for action in actions].index(False) == 3
    give_heads(hand, 2)
    assert len(shown.heads) == 2
    assert not shown.many.isVisible()


def test_one_head_has_nothing_to_choose(hand: Hand) -> None:
    give_heads(hand, 1)
    assert bar(hand).heads == []
    assert not bar(hand).box.isVisible()
    for by in HeadAggregate:
        assert not bar(hand).buttons[f"gaze.toggle_fold {by}"].isVisible()


def test_a_chip_has_its_heads_colour_and_name(three: Hand) -> None:
    names = [chip.accessibleName() for chip in bar(three).heads]
    assert names == ["Head 1", "Head 2", "Head 3"]
    pictures = [
        chip.icon().pixmap(8, 8).toImage().pixelColor(4, 4).name() for chip in bar(three).heads
    ]
    assert len(set(pictures)) == 3
    chips = bar(three).heads
    three.window.set_scheme("dark")
    assert not set(chips) & set(bar(three).heads)  # painted anew
    assert checked(three) == [0, 1, 2]


# ---------------------------------------------------------------------------------------- folds


@pytest.mark.parametrize("by", HeadAggregate)
def test_a_fold_has_a_row_while_its_button_is_down(three: Hand, by: HeadAggregate) -> None:
    button = bar(three).buttons[f"gaze.toggle_fold {by}"]
    assert button.text() == FOLDS[by]
    three.click(button)
    three.settle()
    assert button.isChecked()
    assert three.shown.columns[0][-1].fold is by
    assert len(three.shown.columns[0]) == 4
    three.click(button)
    three.settle()
    assert not button.isChecked()
    assert len(three.shown.columns[0]) == 3


@pytest.mark.parametrize("key", [Qt.Key.Key_M, Qt.Key.Key_H])
def test_with_a_fold_goes_the_cell_that_is_pinned_there(three: Hand, key: Qt.Key) -> None:
    press(three, Qt.Key.Key_M, BOTH)
    three.window.cell_selection_controller.follow(Cell("weights", (3, 2), HeadAggregate.MEAN))
    three.settle()
    press(three, Qt.Key.Key_X, BOTH)
    assert three.window.workspace.view.pinned == Cell("weights", (3, 2), HeadAggregate.MEAN)
    press(three, key, BOTH)
    assert three.window.workspace.view.pinned is None


# ------------------------------------------------------------------------------------ how close


def test_buttons_look_closer_further_and_at_all(hand: Hand) -> None:
    hand.paste_sentence(" ".join(f"w{number}" for number in range(30)))
    hand.settle()
    shown = bar(hand)
    closer, further, whole = (shown.buttons[f"gaze.{name}"] for name in ("closer", "further",
                                                                         "whole"))  # fmt: skip
    assert shown.part.text() == ""
    assert (closer.isEnabled(), further.isEnabled(), whole.isEnabled()) == (True, False, False)
    hand.click(closer)
    hand.settle()
    assert shown.part.toolTip() == "Queries 6–25, keys 6–25 of 30 are seen"
    assert shown.part.text().startswith("6–25 × 6")
    assert further.isEnabled()
    hand.click(further)
    hand.settle()
    assert seen(hand) is None
    hand.click(closer)
    hand.settle()
    hand.click(whole)
    hand.settle()
    assert (seen(hand), shown.part.text()) == (None, "")


def test_what_is_seen_is_said_while_it_moves(hand: Hand) -> None:
    turn(hand, hand.point(Cell("weights", (0, 0, 5))), 2)
    zoom = seen(hand)
    assert zoom
    said = bar(hand).part.text()
    assert said.startswith(f"{zoom.queries.start + 1}–{zoom.queries.stop} × ")
    assert bar(hand).part.toolTip().endswith(" of 6 are seen")


def test_the_button_opens_the_colours(hand: Hand) -> None:
    opened = next(one for one in bar(hand).buttons.values() if one.text() == "Colours")
    hand.click(opened)
    hand.until(hand.window.panes["Colours"].isVisible)
    assert hand.window.panes["Colours"].isVisible()


def test_in_a_narrow_window_the_bar_is_scrolled(hand: Hand) -> None:
    give_heads(hand, 8)
    hand.window.resize(700, 600)
    QApplication.processEvents()
    across = bar(hand).horizontalScrollBar()
    assert across.maximum() > 0
    assert bar(hand).height() >= across.height() + 20
    for right, down in ((-120, 0), (0, -120)):  # over it, either way of the wheel goes along it
        across.setValue(0)
        roll(bar(hand), QPoint(right, down))
        assert across.value() == min(120, across.maximum())
    last = bar(hand).buttons["gaze.closer"]
    bar(hand).ensureWidgetVisible(last)
    assert not last.visibleRegion().isEmpty()
