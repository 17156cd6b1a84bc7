"""Looking closer at a shorter text, and folds that go away: at a real window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from visualizer.attention.derived import Fold
from visualizer.state.view import Cell
from visualizer.state.zoom import Zoom

if TYPE_CHECKING:
    from tests.ui.hand import Hand

LONG, SHORT = (" ".join(f"w{at}" for at in range(count)) for count in (60, 20))
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def zoom(hand: Hand) -> Zoom | None:
    return hand.shown.zoom


# ------------------------------------------------------------------------------ closer


def test_of_a_shorter_text_one_looks_closer_at_what_is_seen(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.settle()
    gaze = hand.window.gaze
    gaze.zoom_at(6, "weights", 60, 60)
    hand.settle()
    assert zoom(hand) == Zoom(range(50, 60), range(50, 60))
    hand.paste_sentence(SHORT)
    hand.settle()
    assert zoom(hand) == Zoom(range(10, 20), range(10, 20))
    gaze.centre(5, 10)
    hand.settle()
    assert zoom(hand) == Zoom(range(10), range(5, 15))
    hand.press(Qt.Key.Key_Plus)
    hand.settle()
    assert zoom(hand) == Zoom(range(2, 8), range(7, 13))


def test_a_pan_of_a_shorter_text_goes_by_a_part_of_what_is_seen(hand: Hand) -> None:
    hand.paste_sentence(LONG)
    hand.settle()
    hand.window.gaze.zoom_at(3, "weights", 60, 60)
    hand.paste_sentence(SHORT)
    hand.settle()
    assert zoom(hand) == Zoom(range(20), range(20)) or zoom(hand) is None
    hand.window.gaze.pan(-1, -1)
    hand.settle()
    assert zoom(hand) is None


# ------------------------------------------------------------------------------ folds


def test_with_a_fold_goes_the_cell_that_is_pinned_in_it(hand: Hand) -> None:
    hand.type_number("heads", "2")
    hand.settle()
    hand.press(Qt.Key.Key_M, CONTROL | SHIFT)
    hand.settle()
    cell = Cell("weights", (3, 1), Fold.MEAN)
    hand.click_cell(cell)
    hand.settle()
    assert hand.window.workspace.screen.cursor.pinned == cell
    hand.press(Qt.Key.Key_M, CONTROL | SHIFT)
    hand.settle()
    assert hand.window.workspace.screen.cursor.pinned is None
