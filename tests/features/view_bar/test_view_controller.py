"""Changes of the zoom, the colours and the heads in a real window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from visualizer.attention.display_transforms import HeadAggregate
from visualizer.features.view_bar.colours_widget import LIMIT_LABELS, ColoursPane
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import ColourLimits
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.heatmap.panel_colour_scale import ColourScale

LONG, SHORT = (" ".join(f"w{at}" for at in range(count)) for count in (60, 20))
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def zoom(hand: Hand) -> ZoomRange | None:
    return hand.shown.zoom


# ------------------------------------------------------------------------------ zoom


def test_zooming_in_a_shorter_text_starts_from_the_visible_range(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.settle()
    view_controller = hand.window.controllers.view_controller
    view_controller.zoom_at(6, "weights", 60, 60)
    hand.settle()
    assert zoom(hand) == ZoomRange(range(50, 60), range(50, 60))
    hand.paste_sentence(SHORT)
    hand.settle()
    assert zoom(hand) == ZoomRange(range(10, 20), range(10, 20))
    view_controller.centre(5, 10)
    hand.settle()
    assert zoom(hand) == ZoomRange(range(10), range(5, 15))
    hand.press(Qt.Key.Key_Plus)
    hand.settle()
    assert zoom(hand) == ZoomRange(range(2, 8), range(7, 13))


def test_panning_a_shorter_text_uses_the_visible_range(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.settle()
    hand.window.controllers.view_controller.zoom_at(3, "weights", 60, 60)
    hand.paste_sentence(SHORT)
    hand.settle()
    assert zoom(hand) == ZoomRange(range(20), range(20)) or zoom(hand) is None
    hand.window.controllers.view_controller.pan(-1, -1)
    hand.settle()
    assert zoom(hand) is None


# ------------------------------------------------------------------------------ aggregates


def test_hiding_an_aggregate_unpins_its_cell(hand: Hand) -> None:
    hand.type_number("heads", "2")
    hand.settle()
    hand.press(Qt.Key.Key_M, CONTROL | SHIFT)
    hand.settle()
    cell = Cell("weights", (3, 1), HeadAggregate.MEAN)
    hand.click_cell(cell)
    hand.settle()
    assert hand.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == cell
    hand.press(Qt.Key.Key_M, CONTROL | SHIFT)
    hand.settle()
    assert hand.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned is None


# ------------------------------------------------------------------------------ custom limits


@pytest.fixture
def pane(hand: Hand) -> ColoursPane:
    hand.press(Qt.Key.Key_F11, Qt.KeyboardModifier.NoModifier)
    hand.settle()
    pane = hand.window.panes["Colours"]
    assert isinstance(pane, ColoursPane)
    pane.limits.setCurrentIndex(pane.limits.findText(LIMIT_LABELS[ColourLimits.TYPED]))
    pane.limits.activated.emit(pane.limits.currentIndex())
    hand.settle()
    return pane


def colour(hand: Hand, stage: str) -> ColourScale:
    return hand.panel(stage).colour


def put(hand: Hand, pane: ColoursPane, stage: str, side: str, text: str) -> None:
    box = pane.boxes[stage, side]
    box.setFocus()
    box.selectAll()
    QTest.keyClicks(box, text)
    QTest.keyClick(box, Qt.Key.Key_Return)
    hand.settle()


def test_custom_limits_are_the_ends_of_the_colour_scale(hand: Hand, pane: ColoursPane) -> None:
    put(hand, pane, "weights", "high", "0,5")
    found = colour(hand, "weights")
    assert (found.low, found.high, found.limits) == (0, 0.5, ColourLimits.TYPED)
    assert any("above" in note for note in hand.panel("weights").notes)
    put(hand, pane, "scores", "high", "3")
    assert (colour(hand, "scores").low, colour(hand, "scores").high) == (-3, 3)


def test_weights_have_no_limit_below_0(hand: Hand, pane: ColoursPane) -> None:
    before = colour(hand, "weights")
    put(hand, pane, "weights", "low", "-0.5")
    assert "at least 0" in pane.problem.text()
    assert not pane.problem.isHidden()
    assert colour(hand, "weights") == before


def test_a_limit_that_was_only_focused_keeps_its_precision(hand: Hand, pane: ColoursPane) -> None:
    high = colour(hand, "scores").high
    box = pane.boxes["scores", "high"]
    assert float(box.text()) != high  # the box shows fewer digits
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Return)
    hand.settle()
    assert colour(hand, "scores").high == high
