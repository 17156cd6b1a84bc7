"""Hovering explains a cell, a click pins it, arrow keys move from cell to cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication

from tests.support.window_input import words
from visualizer.features.explain.presenter import CELL_PANEL, plain_text
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.shell.window import MainWindow

JOURNEY = Cell("weights", (0, 1, 0))
SENTENCE = "journey (query 2) attends to Your (key 1) with weight 48%."
CAPTION = f"In head 1, {SENTENCE}"


def pinned(window: MainWindow) -> Cell | None:
    return window.workspace.view.pinned


@pytest.mark.parametrize(
    "cell",
    [
        JOURNEY,
        Cell("weights", (1, 5, 5)),
        Cell("scores", (0, 0, 0)),
        Cell("scores", (1, 2, 4)),
        Cell("context", (1, 3, 0)),
    ],
)
def test_the_cell_under_the_pointer_is_explained(hand: Hand, cell: Cell) -> None:
    hand.hover(cell)
    assert hand.window.workspace.view.hovered == cell
    readout = hand.window.workspace.screen.panel(CELL_PANEL)
    assert readout
    assert (hand.said, hand.caption) == (readout.plain_text, plain_text(readout.caption))
    row, column = cell.place[-2:]
    shown = hand.panel(cell.stage, cell.place[0]).values[row, column]
    assert readout.value == words(hand.window.panes["Explain"].value)
    assert float(readout.value.replace("−", "-")) == pytest.approx(shown, abs=5.1e-5)


def test_hovering_highlights_the_tokens_until_the_pointer_leaves(hand: Hand) -> None:
    hint = hand.caption
    hand.hover(JOURNEY)
    assert (hand.said, hand.caption) == (SENTENCE, CAPTION)
    tokens = hand.window.panes["Tokens"].strip.tokens
    assert (tokens.query, tokens.key) == (1, 0)
    hand.leave()
    assert "Point at a cell" in hand.said
    assert hand.caption == hint != CAPTION
    assert hand.window.panes["Tokens"].strip.tokens.query is None


def test_the_cursor_is_painted_in_every_panel(hand: Hand) -> None:
    accent = hand.window.theme.accent
    view = hand.board.viewport()
    assert not has_colour(hand, accent, "scores")
    hand.hover(JOURNEY)
    for stage in ("scores", "weights", "context"):
        assert has_colour(hand, accent, stage), stage
    hand.leave()
    assert not has_colour(hand, accent, "weights")
    assert view.isVisible()


def has_colour(hand: Hand, colour: str, stage: str) -> bool:
    area = hand.board.area_of_cell(Cell(stage, (1, 1, 0)))  # the cursor's row in the other head
    assert area
    image = hand.board.viewport().grab(area.adjusted(-2, -2, 2, 2)).toImage()
    return any(
        image.pixelColor(x, y).name().upper() == colour.upper()
        for x in range(image.width())
        for y in range(image.height())
    )


def test_a_click_pins_a_cell(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    hand.leave()
    assert (hand.said, hand.caption) == (SENTENCE, CAPTION)
    assert not hand.window.panes["Explain"].unpin_button.isHidden()
    hand.hover(Cell("weights", (0, 0, 0)))
    assert hand.said == "Your (query 1) attends to Your (key 1) with weight 100%."
    assert "pinned" not in words(hand.window.panes["Explain"].heading)
    hand.leave()
    assert hand.said == SENTENCE


def test_a_second_click_unpins_the_cell(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    hand.click_cell(JOURNEY)
    hand.leave()
    assert pinned(hand.window) is None
    assert "Point at a cell" in hand.said


def test_escape_unpins_the_cell(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    hand.leave()
    assert hand.board.hasFocus()
    hand.key(Qt.Key.Key_Escape)
    assert pinned(hand.window) is None
    assert "Point at a cell" in hand.said


def test_the_unpin_action_works_wherever_the_focus_is(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    hand.leave()
    hand.sentence.setFocus()
    hand.window.actions_.by_id["cell.unpin"].trigger()
    assert pinned(hand.window) is None


def test_arrow_keys_move_from_cell_to_cell_and_across_edges(hand: Hand) -> None:
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Down)
    assert pinned(hand.window) == Cell("scores", (0, 0, 0))
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left):
        hand.key(key)
    assert pinned(hand.window) == Cell("scores", (0, 1, 1))
    for _ in range(4):
        hand.key(Qt.Key.Key_Right)
    assert pinned(hand.window) == Cell("scores", (0, 1, 5))
    for _ in range(3):
        hand.key(Qt.Key.Key_Up)
    assert pinned(hand.window) == Cell("scores", (0, 0, 5))
    assert "(query 1)" in hand.said
    assert "step (key 6)" in hand.said
    hand.key(Qt.Key.Key_Right)
    assert pinned(hand.window) == Cell("weights", (0, 0, 0))
    for _ in range(6):
        hand.key(Qt.Key.Key_Down)
    assert pinned(hand.window) == Cell("weights", (1, 0, 0))
    hand.key(Qt.Key.Key_Left)
    assert pinned(hand.window) == Cell("scores", (1, 0, 5))


def test_movement_scrolls_to_the_cell(hand: Hand) -> None:
    hand.type_number("d_out", "6")
    hand.type_number("heads", "6")
    hand.settle()
    last = Cell("weights", (5, 0, 0))
    area = hand.board.area_of_cell(last)
    assert area
    assert not hand.board.viewport().rect().contains(area)
    hand.window.controllers.cell_selection_controller.pin_cell(last)
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Right)
    area = hand.board.area_of_cell(Cell("weights", (5, 0, 1)))
    assert area
    assert hand.board.viewport().rect().contains(area)
    hand.hover(Cell("weights", (5, 1, 0)))
    assert hand.window.workspace.view.hovered == Cell("weights", (5, 1, 0))


def test_nothing_is_explained_outside_the_cells(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    corner = hand.board.viewport().rect().bottomRight() - QPoint(3, 3)
    hand.click(hand.board.viewport(), corner)
    assert pinned(hand.window) is None


def test_a_pinned_cell_beyond_a_shorter_text_is_restored_by_a_longer_text(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (0, 5, 5)))
    hand.leave()
    hand.type_sentence("a b")
    hand.settle()
    assert "Point at a cell" in hand.said
    hand.type_sentence("a b c d e f")
    hand.settle()
    assert "f (query 6) attends to " in hand.said


def test_a_very_long_word_leaves_room_for_its_number(hand: Hand) -> None:
    width = hand.window.width()
    hand.sentence.selectAll()
    hand.compose("x" * 4000 + " y")
    hand.settle()
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.until(lambda: hand.window.panes["Explain"].terms.height() > 40)
    pane = hand.window.panes["Explain"]
    beyond = pane.terms.width() - pane.scroll_area.viewport().width()
    # Wide fonts need a little more room.
    assert beyond <= min(60, pane.scroll_area.horizontalScrollBar().maximum())
    assert hand.window.width() == width


def test_explanations_of_typical_cells_fit_in_the_pane(hand: Hand) -> None:
    hand.type_number("dropout", "0.5")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    for stage in run.trace.stages:
        place = (1,) * len(stage.dims)
        hand.window.controllers.cell_selection_controller.hover_cell(
            Cell(stage.name, place if stage.dims[-1] == "key" else (0,) * len(place))
        )
        QApplication.processEvents()
        pane = hand.window.panes["Explain"]
        assert pane.scroll_area.horizontalScrollBar().maximum() == 0, stage.name


def test_the_explanation_states_that_a_cell_is_forbidden(hand: Hand) -> None:
    hand.hover(Cell("weights", (0, 0, 3)))
    assert hand.said.startswith("Your (query 1) may not attend to with (key 4)")


def test_the_explanation_of_a_cell_can_be_copied(hand: Hand) -> None:
    hand.click_cell(JOURNEY)
    hand.trigger("cell.copy")
    copied = QApplication.clipboard().text().splitlines()
    assert copied[:2] == ["Weights · head 1, query 2, key 1", SENTENCE]
    assert copied[2].endswith("= 0.4776")
    assert [line.split("\t")[0] for line in copied[3:5]] == ["Your", "journey"]


# ---------------------------------------------------------------------------------- the stages


def test_the_menu_shows_and_hides_stages(hand: Hand) -> None:
    weights = hand.panel("weights")
    hand.toggle_stage("scaled")
    hand.settle()
    assert hand.stages == ["scores", "scaled", "weights", "context"]
    assert hand.panel("weights") is weights
    hand.toggle_stage("scores")
    hand.toggle_stage("context")
    hand.settle()
    assert hand.stages == ["scaled", "weights"]
    read = hand.read_menu(hand.window.view_bar.stages_button)
    assert [title for title, is_shown in read.items() if is_shown] == ["Scaled", "Weights"]


def test_the_last_visible_stage_cannot_be_hidden(hand: Hand) -> None:
    for stage in ("scores", "context", "weights", "weights"):
        hand.toggle_stage(stage)
    hand.settle()
    assert hand.stages == ["weights"]
    assert hand.read_menu(hand.window.view_bar.stages_button)["Weights"]


def test_the_last_stage_remains_visible_if_a_mask_removes_others(hand: Hand) -> None:
    hand.toggle_stage("masked")
    for stage in ("scores", "context", "weights"):
        hand.toggle_stage(stage)
    hand.settle()
    assert hand.stages == ["masked"]
    hand.choose("mask QComboBox", "None")
    hand.settle()
    assert hand.stages != []
    assert any(hand.read_menu(hand.window.view_bar.stages_button).values())
