"""The flow board in the window: choose it, point, follow, change the head and the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from tests.support.image_pixels import rgb_of
from visualizer.features.view_bar.presenter import BoardArrangement
from visualizer.features.view_bar.widget import LAYOUT_LABELS
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.heatmap.board import FlowPanels
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.flow_layout import Box


@pytest.fixture
def flow_hand(hand: Hand) -> Hand:
    """Choose the flow board in the list of layouts."""
    box = hand.window.view_bar.box
    hand.click(box)
    view = box.view()
    QTest.keyClick(view, Qt.Key.Key_Home)
    for _ in range(box.findText(LAYOUT_LABELS[BoardArrangement.FLOW])):
        QTest.keyClick(view, Qt.Key.Key_Down)
    QTest.keyClick(view, Qt.Key.Key_Return)
    hand.activate()
    hand.settle()
    return hand


def _placement(hand: Hand) -> FlowPlacement:
    found = hand.board.board_layout.flow
    assert found is not None
    return found


def _panels(hand: Hand) -> FlowPanels:
    return _placement(hand).panels


def _shown(hand: Hand) -> list[str]:
    return [panel.stage for panel in _panels(hand).panels]


def _middle(box: Box) -> QPoint:
    x, y = box.middle
    return QPoint(round(x), round(y))


def _click_heading(hand: Hand, stage: str) -> None:
    at = next(at for at, one in enumerate(_panels(hand).columns) if stage in one.states)
    hand.click(hand.board.viewport(), _middle(_placement(hand).layout.columns[at].heading))
    hand.settle()


def _click_tab(hand: Hand, number: int) -> None:
    hand.click(hand.board.viewport(), _middle(_placement(hand).layout.tabs[number]))
    hand.settle()


def test_the_whole_computation_of_a_head_is_shown_from_tokens_to_output(flow_hand: Hand) -> None:
    assert _shown(flow_hand) == [
        *("input", "queries", "keys", "values", "masked", "weights", "context"),
        *("concat", "output"),
    ]
    assert {panel.head for panel in _panels(flow_hand).panels} == {0, None}


def test_the_cell_under_the_pointer_is_explained(flow_hand: Hand) -> None:
    cell = Cell("weights", (0, 3, 1))
    flow_hand.hover(cell)
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == cell)
    flow_hand.settle()
    numbers = flow_hand.window.workspace.run
    assert numbers is not None
    value = float(numbers.trace.read("weights", (0, 3, 1)))
    assert f"{value:.0%}" in flow_hand.said


@pytest.mark.parametrize(("matrix", "stage"), [("masked", "keys"), ("context", "values")])
def test_what_stands_above_a_matrix_is_pointed_to(flow_hand: Hand, matrix: str, stage: str) -> None:
    placement = _placement(flow_hand)
    at = next(at for at, one in enumerate(placement.panels.columns) if matrix in one.states)
    slot, token = placement.operands[at], 4
    assert slot is not None
    across = stage == "keys"  # transposed: a token is a column
    area = slot.cell(0, token) if across else slot.cell(token, 0)
    flow_hand.move_to(area.center().toPoint())
    wanted = Cell(stage, (0, token, 0))
    flow_hand.until(lambda: flow_hand.board.cell_cursor.hovered == wanted)


def test_a_click_pins_and_escape_unpins(flow_hand: Hand) -> None:
    cell = Cell("weights", (0, 3, 1))
    flow_hand.click_cell(cell)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == cell
    flow_hand.key(Qt.Key.Key_Down)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == Cell("weights", (0, 4, 1))
    flow_hand.key(Qt.Key.Key_Escape)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned is None


def test_arrows_go_on_in_the_next_matrix(flow_hand: Hand) -> None:
    flow_hand.click_cell(Cell("queries", (0, 2, 0)))
    flow_hand.settle()
    flow_hand.key(Qt.Key.Key_Right)
    flow_hand.settle()
    assert flow_hand.board.cell_cursor.pinned == Cell("keys", (0, 2, 0))


def test_a_tab_brings_its_head_to_the_front_with_the_pinned_cell(flow_hand: Hand) -> None:
    flow_hand.click_cell(Cell("weights", (0, 3, 1)))
    flow_hand.settle()
    _click_tab(flow_hand, 1)
    assert _panels(flow_hand).front == 1
    assert flow_hand.board.cell_cursor.pinned == Cell("weights", (1, 3, 1))
    run = flow_hand.window.workspace.run
    assert run is not None
    shown = flow_hand.panel("weights", 1).values
    np.testing.assert_array_equal(shown, run.trace.read("weights", (1,)))


def test_the_last_tab_shows_the_weights_of_all_heads(flow_hand: Hand) -> None:
    _click_tab(flow_hand, 2)
    assert flow_hand.shown.flow is None
    assert [(one.stage, one.head) for one in flow_hand.shown.heatmaps] == [
        ("weights", 0),
        ("weights", 1),
    ]


def test_digits_choose_heads(flow_hand: Hand) -> None:
    flow_hand.board.setFocus()
    flow_hand.key(Qt.Key.Key_2)
    flow_hand.settle()
    assert _panels(flow_hand).front == 1
    flow_hand.key(Qt.Key.Key_9)  # there are two
    flow_hand.settle()
    assert _panels(flow_hand).front == 1
    flow_hand.key(Qt.Key.Key_0)
    flow_hand.settle()
    assert flow_hand.shown.flow is None


def test_a_heading_enlarges_its_matrix_and_then_shows_its_next_state(flow_hand: Hand) -> None:
    before = _placement(flow_hand).layout
    _click_heading(flow_hand, "masked")
    focused = _placement(flow_hand).layout
    assert _shown(flow_hand)[_panels(flow_hand).focus] == "masked"
    assert focused.rows_top == before.rows_top
    assert focused.row_height == before.row_height
    _click_heading(flow_hand, "masked")
    assert "scores" in _shown(flow_hand)


def test_a_changed_setting_keeps_the_flow(flow_hand: Hand) -> None:
    flow_hand.type_sentence("one two three four five six seven eight")
    flow_hand.settle()
    assert _panels(flow_hand).panels[0].values.shape[0] == 8
    flow_hand.window.workspace.set("heads", 1)
    flow_hand.settle()
    assert _placement(flow_hand).layout.tabs == ()


def test_playback_shows_the_flow_with_empty_cells(flow_hand: Hand) -> None:
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    assert "scores" in _shown(flow_hand)
    reached = {one.stage: one.rows for one in flow_hand.board.highlights.computed_extents}
    assert reached["weights"] == 0
    assert len(_shown(flow_hand)) == 9


def _is_blank(hand: Hand, slot: PanelSlot) -> bool:
    """Whether the cells of a slot have the colour of the paper alone."""
    inside = slot.cells.adjusted(2, 2, -2, -2).toAlignedRect()
    image = rgb_of(hand.board.viewport().grab().toImage())
    seen = image[inside.top() : inside.bottom(), inside.left() : inside.right()]
    paper = QColor(hand.window.theme.paper).rgb() & 0xFFFFFF
    return bool((seen == paper).all())


def _slots_of(hand: Hand, stage: str) -> list[PanelSlot]:
    """Return what shows a stage beside its own column: an operand, or thumbnails."""
    placement = _placement(hand)
    pairs = zip(placement.panels.columns, placement.operands, strict=True)
    operands = [slot for column, slot in pairs if slot and column.operand == stage]
    return [*operands, *(one for one in placement.thumbnails if one.heatmap.stage == stage)]


@pytest.mark.parametrize(("before", "after", "stage"), [
    ("queries", "scores", "keys"), ("keys", "weights", "values"), ("masked", "context", "weights"),
])  # fmt: skip
def test_operands_and_thumbnails_are_empty_until_playback_has_computed_them(
    flow_hand: Hand, before: str, after: str, stage: str
) -> None:
    playback = flow_hand.window.controllers.playback_controller
    playback.seek_stage(before)
    flow_hand.settle()
    assert all(_is_blank(flow_hand, slot) for slot in _slots_of(flow_hand, stage))
    playback.seek_stage(after)
    flow_hand.settle()
    slots = _slots_of(flow_hand, stage)
    assert slots
    assert not any(_is_blank(flow_hand, slot) for slot in slots)


def test_a_prediction_is_not_given_away_by_thumbnails(flow_hand: Hand) -> None:
    flow_hand.press(Qt.Key.Key_P)
    flow_hand.settle()
    assert "weights" in flow_hand.board.highlights.hidden_stages
    assert all(_is_blank(flow_hand, slot) for slot in _slots_of(flow_hand, "weights"))


def test_a_heading_is_a_place_on_the_timeline_during_playback(flow_hand: Hand) -> None:
    flow_hand.window.controllers.playback_controller.seek_stage("scores")
    flow_hand.settle()
    _click_heading(flow_hand, "weights")
    place = flow_hand.window.workspace.screen.view.playhead.place
    assert place is not None
    assert place.stage == "weights"


def test_headings_take_the_place_of_the_stage_bar(flow_hand: Hand) -> None:
    assert not flow_hand.window.stage_bar.isVisible()
    flow_hand.window.controllers.view_controller.arrange(BoardArrangement.ALL)
    flow_hand.settle()
    assert flow_hand.window.stage_bar.isVisible()


def test_a_very_narrow_board_shows_the_head_with_its_operands(flow_hand: Hand) -> None:
    flow_hand.window.resize(800, 600)
    flow_hand.until(lambda: flow_hand.board.viewport().width() < 480)
    flow_hand.settle()
    assert _shown(flow_hand) == ["queries", "masked", "weights", "context"]
    widths = {slot.heatmap.stage: slot.cell_width for slot in flow_hand.board.board_layout.slots}
    assert max(widths, key=lambda stage: widths[stage]) == "weights"
    assert widths["weights"] >= 3


def test_another_layout_is_chosen_again(flow_hand: Hand) -> None:
    flow_hand.window.controllers.view_controller.arrange(BoardArrangement.ALL)
    flow_hand.settle()
    assert flow_hand.shown.flow is None
