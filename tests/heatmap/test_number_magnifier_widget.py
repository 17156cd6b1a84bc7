"""Numbers appear next to a cell that is too small for them, while the pointer rests on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication

from visualizer.heatmap.flow_cursor_paint import framed_areas
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.attention.trace import Trace

LONG = " ".join(f"word{at}" for at in range(40))


def _trace(hand: Hand) -> Trace:
    run = hand.window.workspace.run
    assert run is not None
    return run.trace


@pytest.fixture(params=["flow", "grid"])
def long_hand(hand: Hand, request: pytest.FixtureRequest) -> Hand:
    """Show a text with cells that have no room for numbers."""
    if request.param == "flow":
        hand.click(hand.window.view_bar.buttons["view.show_flow"])
    hand.paste_sentence(LONG)
    hand.until(lambda: _trace(hand).query_count == 40)
    hand.settle()
    return hand


def _rest(hand: Hand, point: QPoint) -> None:
    hand.move_to(point)
    viewport = hand.board.viewport()
    QApplication.sendEvent(
        viewport, QHelpEvent(QEvent.Type.ToolTip, point, viewport.mapToGlobal(point))
    )


@pytest.mark.parametrize("place", [(0, 0), (20, 7), (39, 39)])
def test_the_magnifier_shows_the_values_around_the_cell_next_to_it(
    long_hand: Hand, place: tuple[int, int]
) -> None:
    cell, magnifier = Cell("weights", (0, *place)), long_hand.board.magnifier
    _rest(long_hand, long_hand.point(cell))
    assert magnifier.isVisible()
    assert magnifier.slot
    rows, columns = (
        axis.visible_range for axis in (magnifier.slot.heatmap.rows, magnifier.slot.heatmap.columns)
    )
    assert place[0] in rows
    assert place[1] in columns
    assert (len(rows), len(columns)) == (5, 5)
    weights = _trace(long_hand).read("weights", (0,))
    np.testing.assert_array_equal(
        magnifier.slot.heatmap.values, weights[rows.start : rows.stop, columns.start : columns.stop]
    )
    assert magnifier.slot.numbers
    assert long_hand.board.viewport().rect().contains(magnifier.geometry())
    assert not magnifier.geometry().contains(long_hand.point(cell))


def test_masked_cells_have_no_magnifier(long_hand: Hand) -> None:
    assert _trace(long_hand).read("weights", (0, 3, 30)) == 0
    _rest(long_hand, long_hand.point(Cell("weights", (0, 3, 30))))
    assert not long_hand.board.magnifier.isVisible()


@pytest.mark.parametrize("long_hand", ["flow"], indirect=True)
@pytest.mark.parametrize("cell", [Cell("weights", (0, 20, 7)), Cell("context", (0, 9, 0))])
def test_the_magnifier_covers_no_operand(long_hand: Hand, cell: Cell) -> None:
    board = long_hand.board
    long_hand.hover(cell)
    long_hand.until(lambda: board.cell_cursor.hovered == cell)
    _rest(long_hand, long_hand.point(cell))
    assert board.magnifier.isVisible()
    assert board.board_layout.flow
    framed = framed_areas(board.board_layout.flow, cell, frozenset())
    assert len(framed) >= 3
    assert not any(area.toRect().intersects(board.magnifier.geometry()) for area in framed)


def test_the_magnifier_disappears_with_the_cell(long_hand: Hand) -> None:
    magnifier = long_hand.board.magnifier
    _rest(long_hand, long_hand.point(Cell("weights", (0, 20, 7))))
    assert magnifier.isVisible()
    long_hand.hover(Cell("weights", (0, 30, 2)))
    assert not magnifier.isVisible()
    _rest(long_hand, long_hand.point(Cell("weights", (0, 20, 7))))
    assert magnifier.isVisible()
    long_hand.leave()
    long_hand.until(lambda: not magnifier.isVisible())


def test_a_prediction_hides_the_magnifier(long_hand: Hand) -> None:
    point = long_hand.point(Cell("weights", (0, 20, 7)))
    _rest(long_hand, point)
    long_hand.trigger("playback.predict")
    long_hand.settle()
    assert not long_hand.board.magnifier.isVisible()
    _rest(long_hand, point)
    assert not long_hand.board.magnifier.isVisible()


def test_visible_numbers_need_no_magnifier(hand: Hand) -> None:
    _rest(hand, hand.point(Cell("weights", (0, 3, 1))))
    assert not hand.board.magnifier.isVisible()
