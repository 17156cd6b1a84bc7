"""Context menus of heads, tokens, tables and panes contain the commands of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QMenu

from tests.support.context_menus import (
    choose_in_context_menu,
    close_menu,
    entry_ids,
    open_context_menu,
)
from tests.support.window_input import SHIFT
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand

SHOW, ABLATE = "show_head", "toggle_ablation"


def test_the_board_offers_its_commands_by_mouse_and_by_key(hand: Hand) -> None:
    by_key = open_context_menu(hand.board)
    ids = entry_ids(by_key)
    assert {"view.show_flow", "view.zoom_in", "export.open"} <= set(ids)
    close_menu(by_key)
    corner = hand.board.viewport().rect().bottomRight() - QPoint(2, 2)
    by_mouse = open_context_menu(hand.board.viewport(), corner)
    assert entry_ids(by_mouse) == ids
    close_menu(by_mouse)
    hand.activate()
    choose_in_context_menu(hand.board, None, "view.show_flow")
    hand.settle()
    assert hand.window.workspace.view.flow


def test_shift_f10_opens_the_menu_of_the_focused_widget(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.board.setFocus()
    hand.press(Qt.Key.Key_F10, SHIFT)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    assert "copy_value" in entry_ids(menu)
    close_menu(menu)
    hand.activate()


def test_a_head_of_the_table_is_shown(hand: Hand) -> None:
    hand.trigger("pane.toggle Heads")
    hand.settle()
    view = hand.window.panes["Heads"].view
    row = next(at for at, one in enumerate(view.rows) if one.head == 1)
    index = view.model().index(row, 0)
    at = view.visualRect(index).center()
    menu = open_context_menu(view.viewport(), at)
    assert entry_ids(menu) == [SHOW]  # the heads of a module cannot be ablated
    close_menu(menu)
    view.setCurrentIndex(index)
    choose_in_context_menu(view, None, SHOW)
    hand.settle()
    assert hand.window.workspace.view.flow
    assert hand.window.workspace.view.heads == frozenset({1})


def test_a_head_of_the_scatter_plot_is_ablated(model_window: Hand) -> None:
    hand = model_window
    hand.trigger("pane.toggle Scatter")
    hand.settle()
    plot = hand.window.panes["Scatter"].plot
    place = hand.window.workspace.screen.resolved.leading[0], 1  # type: ignore[union-attr]
    choose_in_context_menu(plot, plot.head_position(place).toPoint(), ABLATE)
    hand.settle()
    model = hand.window.workspace.document.model
    assert model
    assert len(model.edits_by_head) == 1


def test_the_commands_of_tokens_act_on_the_token_under_the_pointer(hand: Hand) -> None:
    hand.trigger("pane.toggle Tokens")
    hand.settle()
    strip = hand.window.panes["Tokens"].strip
    at = strip.chips[2].center().toPoint()
    menu = open_context_menu(strip.viewport(), at)
    assert "token_selection.switch_role" in entry_ids(menu)
    close_menu(menu)
    hand.settle()
    assert hand.window.workspace.view.tokens.chosen == {2}
    before = hand.window.workspace.view.tokens.role
    hand.activate()
    choose_in_context_menu(strip, None, "token_selection.switch_role")
    hand.settle()
    assert hand.window.workspace.view.tokens.role is not before


def test_numbers_are_copied_by_the_menu(hand: Hand) -> None:
    hand.trigger("pane.toggle Numbers")
    hand.settle()
    grid = hand.window.panes["Numbers"].grid
    grid.setCurrentIndex(grid.model().index(0, 0))
    choose_in_context_menu(grid, None, "copy")
    assert float(QApplication.clipboard().text().replace("−", "-"))


@pytest.mark.parametrize("pane", ["Explain", "Lines"])
def test_panes_offer_commands_without_taking_their_shortcuts(pane: str, hand: Hand) -> None:
    hand.click_cell(Cell("weights", (0, 1, 0)))
    if pane not in hand.window.docks.visible_pane_ids:
        hand.trigger(f"pane.toggle {pane}")
    hand.settle()
    widget = hand.window.panes[pane]
    menu = open_context_menu(widget.view if pane == "Lines" else widget)
    assert "cell.unpin" in entry_ids(menu)
    close_menu(menu)
    hand.activate()


def test_the_titles_of_panes_offer_all_panes(hand: Hand) -> None:
    menu = hand.window.createPopupMenu()
    assert {*entry_ids(menu)} == {
        *(f"pane.toggle {id_}" for id_ in hand.window.docks.by_id),
        "layout.reset",
    }
    menu.deleteLater()
