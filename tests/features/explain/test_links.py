"""Links in Explain lead to the cells a number was computed from, by mouse and keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QToolButton

from tests.support.window_input import link_in
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand


def follow(hand: Hand) -> Cell:
    """Click the last link there is in Explain."""
    terms = hand.window.panes["Explain"].terms
    QApplication.processEvents()  # the pane takes its shape
    hand.window.panes["Explain"].scroll_area.ensureWidgetVisible(terms)
    hand.click(terms, link_in(terms))
    hand.settle()
    return pinned(hand)


def pinned(hand: Hand) -> Cell:
    cell = hand.window.workspace.view.pinned
    assert cell
    return cell


def way(hand: Hand, by: int) -> QToolButton:
    action = hand.window.actions_.by_id[f"cell.go {by}"]
    buttons: list[QToolButton] = hand.window.panes["Explain"].findChildren(QToolButton)
    (button,) = (one for one in buttons if one.defaultAction() is action)
    return button


@pytest.mark.slow
def test_from_the_output_to_the_input_and_back(hand: Hand) -> None:
    hand.window.workspace.toggle_stage("output")
    hand.settle()
    hand.click_cell(Cell("output", (3, 1)))
    hand.leave()
    seen = [pinned(hand)]
    while seen[-1].stage != "input":
        seen.append(follow(hand))
        assert seen[-1].stage in hand.stages  # its panel comes, if it was not there
        assert not hand.window.panes["Explain"].unpin_button.isHidden()
    assert [cell.stage for cell in seen][:3] == ["output", "concat", "context"]
    for cell in reversed(seen[:-1]):
        hand.click(way(hand, -1))
        hand.settle()
        assert pinned(hand) == cell
    assert not way(hand, -1).isEnabled()
    for cell in seen[1:]:
        hand.trigger("cell.go 1")
        hand.settle()
        assert pinned(hand) == cell
    assert not way(hand, 1).isEnabled()


def test_the_flow_that_came_with_a_link_goes_with_the_cell(hand: Hand) -> None:
    before = hand.stages
    hand.click_cell(Cell("scores", (0, 2, 1)))
    hand.leave()
    cell = follow(hand)
    assert cell.stage in {"queries", "keys"}
    assert hand.shown.flow is not None
    assert cell.stage in hand.stages
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert hand.stages == before
    assert not way(hand, -1).isEnabled()


def test_the_bar_keeps_the_panel_of_a_link_and_hiding_it_lets_go_of_its_cell(hand: Hand) -> None:
    before = hand.stages
    hand.click_cell(Cell("scores", (0, 2, 1)))
    hand.leave()
    cell = follow(hand)
    hand.toggle_stage(cell.stage)
    hand.settle()
    assert hand.stages == [cell.stage, *before]
    assert hand.window.workspace.view.pinned == cell
    hand.toggle_stage(cell.stage)
    hand.settle()
    assert hand.window.workspace.view.pinned is None
    assert hand.stages == before


def test_a_number_is_followed_to_where_it_goes(hand: Hand) -> None:
    hand.window.controllers.view_controller.show_head_flow(1)
    hand.settle()
    hand.click_cell(Cell("context", (1, 3, 0)))
    hand.leave()
    pane = hand.window.panes["Explain"]
    QApplication.processEvents()
    hand.click(pane.onward, link_in(pane.onward))
    hand.settle()
    assert pinned(hand) == Cell("concat", (3, 1))
    hand.click(way(hand, -1))
    hand.settle()
    assert pinned(hand) == Cell("context", (1, 3, 0))


def test_links_can_be_followed_by_keys(hand: Hand) -> None:
    hand.click_cell(Cell("scores", (0, 2, 1)))
    hand.leave()
    terms = hand.window.panes["Explain"].terms
    terms.setFocus()
    hand.key(Qt.Key.Key_Tab)
    hand.key(Qt.Key.Key_Return)
    hand.settle()
    assert pinned(hand).stage == "queries"


def test_a_cell_far_away_is_scrolled_to(hand: Hand) -> None:
    hand.window.resize(800, 600)
    hand.type_number("d_out", "16")
    hand.type_number("heads", "8")
    hand.settle()
    hand.window.controllers.cell_selection_controller.follow_link(Cell("weights", (7, 5, 5)))
    hand.settle()
    hand.window.controllers.cell_selection_controller.follow_link(Cell("scaled", (7, 5, 5)))
    hand.settle()
    for cell in (Cell("scaled", (7, 5, 5)), Cell("weights", (7, 5, 5))):
        assert pinned(hand) == cell
        area = hand.board.area_of_cell(cell)
        assert area
        assert hand.board.viewport().rect().contains(area)
        hand.trigger("cell.go -1")
        hand.settle()


def test_a_link_opened_by_keys_is_told_wherever_the_pointer_rests(hand: Hand) -> None:
    hand.click_cell(Cell("scores", (0, 2, 1)))
    hand.hover(Cell("weights", (0, 3, 1)))
    hand.window.controllers.cell_selection_controller.follow_link(Cell("queries", (0, 2, 0)))
    hand.settle()
    assert not hand.window.panes["Explain"].unpin_button.isHidden()
    hand.window.controllers.cell_selection_controller.follow_link(Cell("queries", (0, 2, 0)))
    assert hand.window.workspace.view.past == (Cell("scores", (0, 2, 1)),)


def test_the_last_stage_stays_and_a_trail_ends_with_its_pin(hand: Hand) -> None:
    for stage in ("weights", "context"):
        hand.window.workspace.toggle_stage(stage)
        hand.settle()
    hand.click_cell(Cell("scores", (0, 2, 1)))
    hand.click_cell(Cell("scores", (0, 3, 1)))
    hand.toggle_stage("scores")
    hand.settle()
    assert hand.stages == ["scores"]
    assert hand.window.workspace.view.pinned is None
    assert not way(hand, -1).isEnabled()
