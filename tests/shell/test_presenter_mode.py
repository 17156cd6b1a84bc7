"""Presenter mode, controlled by a clicker's keys, enlarges text, hides panes and restores all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolButton

from tests.support.accessible_text import heard
from tests.support.colour_vision import contrast
from tests.support.examples import others_slow
from tests.support.window_input import CONTROL, Hand
from visualizer.features.playback.playback_bar_widget import PlaybackBar
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QRect
    from PySide6.QtGui import QImage

    from tests.support.window_fixtures import Open
    from visualizer.shell.window import MainWindow

pytestmark = pytest.mark.slow  # each test changes its window permanently


Key = Qt.Key
CELL = Cell("weights", (0, 1, 0))
FRAME = 48
"""Maximum difference in height, in pixels, if a window is restored with a different frame."""
SENTENCE = "In head 1, journey (query 2) attends to Your (key 1) with weight 48%."


@pytest.fixture
def window(fresh_window: MainWindow) -> MainWindow:
    """Open a window that has not been in presenter mode."""
    return fresh_window


@pytest.fixture
def usual_size(application: QApplication) -> Iterator[None]:
    """Restore the text size after each test."""
    usual = application.font()
    yield
    assert application.font() == usual


@pytest.fixture
def teacher(usual_size: None, hand: Hand) -> Hand:
    """Return a hand for a window with results in presenter mode."""
    hand.settle()
    hand.board.setFocus()
    hand.key(Key.Key_F5)
    hand.settle()
    return hand


def panes(window: MainWindow) -> dict[str, bool]:
    return {name: dock.isVisible() for name, dock in window.docks.by_id.items()}


def edges(window: MainWindow) -> list[int]:
    """Return the start and end positions of the visible panes."""
    shown = [window.docks.by_id[name] for name in sorted(window.workspace.requested_view.panes)]
    return [edge for dock in shown for edge in _ends(dock.geometry())]


def _ends(area: QRect) -> tuple[int, ...]:
    return area.left(), area.top(), area.right(), area.bottom()


def arrangement(window: MainWindow) -> dict[str, object]:
    return {
        "panes": panes(window),
        "seen": window.workspace.requested_view.panes,  # of tabbed panes, only the front one
        "window": (window.geometry(), window.windowState()),
        "menu": window.menuBar().height(),
        "type": (QApplication.font(), text_scale()),
        "bar": window.playback_bar.sizeHint().height(),
        "icons": {button.iconSize().width() for button in window.findChildren(QToolButton)},
        "theme": window.theme,
    }


def test_heatmaps_are_large_in_presenter_mode(teacher: Hand) -> None:
    window = teacher.window
    assert window.isFullScreen()
    assert window.actions_.by_id["presenter_mode.toggle"].isChecked()
    assert not any(panes(window).values())
    assert window.menuBar().height() == 0
    assert window.view_bar.isVisible()
    assert window.playback_bar.isVisible()
    assert text_scale() == pytest.approx(1.5, abs=0.04)
    assert teacher.board.hasFocus()


def test_numbers_of_the_enlarged_matrix_can_be_read_from_afar(teacher: Hand) -> None:
    teacher.window.resize(1920, 1080)
    teacher.window.controllers.show_flow()
    teacher.settle()
    flow = teacher.board.board_layout.flow
    assert flow
    focus = flow.slots[flow.panels.focus]
    assert focus
    assert focus.numbers
    assert focus.numbers.pixel_size >= 24
    assert focus.numbers.decimals >= 2


def test_everything_is_as_it_was_after(usual_size: None, hand: Hand) -> None:
    hand.settle()
    # One pane is closed, and another is in front of a tabbed pane.
    hand.trigger("pane.toggle Tokens")
    hand.window.docks.by_id["Heads"].hide()
    hand.board.setFocus()
    QApplication.processEvents()
    before, places = arrangement(hand.window), edges(hand.window)
    hand.key(Key.Key_F5)
    QApplication.processEvents()
    during = arrangement(hand.window)
    assert all(during[what] != before[what] for what in before)
    hand.key(Key.Key_F5)
    hand.until(lambda: not hand.window.isFullScreen())
    hand.until(lambda: arrangement(hand.window) == before)
    hand.until(lambda: edges(hand.window) == pytest.approx(places, abs=1))  # rounded like in Qt


def test_escape_unpins_first_and_then_leaves(teacher: Hand) -> None:
    teacher.click_cell(CELL)
    teacher.leave()
    assert teacher.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned == CELL
    teacher.key(Key.Key_Escape)
    assert teacher.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned is None
    assert teacher.window.controllers.presenter_mode.is_on
    teacher.key(Key.Key_Escape)
    assert not teacher.window.controllers.presenter_mode.is_on
    assert not teacher.window.actions_.by_id["presenter_mode.toggle"].isChecked()


def test_escape_leaves_from_wherever_the_keys_are(teacher: Hand) -> None:
    teacher.window.view_bar.heads[0].setFocus()
    teacher.key(Key.Key_Escape)
    assert not teacher.window.controllers.presenter_mode.is_on


def test_outside_of_it_escape_only_unpins(usual_size: None, hand: Hand) -> None:
    hand.settle()
    hand.click_cell(CELL)
    hand.key(Key.Key_Escape)
    hand.key(Key.Key_Escape)
    assert hand.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned is None
    assert not hand.window.isFullScreen()


def test_after_it_escape_in_a_field_unpins_the_cell_as_before(teacher: Hand) -> None:
    teacher.key(Key.Key_F5)
    teacher.until(lambda: not teacher.window.isFullScreen())
    teacher.click_cell(CELL)
    teacher.sentence.setFocus()
    QTest.keyClick(teacher.sentence, Key.Key_Escape)
    teacher.settle()
    assert teacher.window.workspace.screen.panel(BOARD_CONTENTS).cursor.pinned is None
    assert not teacher.window.controllers.presenter_mode.is_on


def test_a_window_that_filled_the_screen_fills_it_again(usual_size: None, hand: Hand) -> None:
    hand.settle()
    hand.window.showMaximized()
    hand.until(hand.window.isMaximized)
    hand.board.setFocus()
    hand.key(Key.Key_F5)
    hand.until(hand.window.isFullScreen)
    hand.key(Key.Key_F5)
    hand.until(lambda: not hand.window.isFullScreen())
    assert hand.window.isMaximized()


def test_it_says_how_to_leave_it(teacher: Hand) -> None:
    assert "F5 or Esc: exit" in teacher.status
    teacher.click_cell(CELL)
    assert "F5 or Esc: exit" in teacher.status
    teacher.key(Key.Key_F5)
    assert "exit" not in teacher.status


def test_the_sentence_of_a_cell_is_large(teacher: Hand) -> None:
    told = teacher.window.playback_bar.caption
    height = teacher.board.height()
    teacher.click_cell(CELL)
    teacher.leave()
    assert teacher.caption == heard(told).name == SENTENCE
    large = told.height()
    assert teacher.board.height() == height  # so that the heatmaps do not move
    teacher.key(Key.Key_F5)
    teacher.until(lambda: told.height() < large)


def test_a_clicker_steps(teacher: Hand) -> None:
    player = teacher.window.controllers.playback_controller
    teacher.key(Key.Key_PageDown)
    teacher.settle()
    first = player.place
    teacher.key(Key.Key_PageDown)
    teacher.settle()
    assert first is not None
    assert player.place != first
    teacher.key(Key.Key_PageUp)
    teacher.settle()
    assert player.place == first


@pytest.mark.parametrize(
    ("key", "back"),
    others_slow(
        [
            (Key.Key_B, Key.Key_B),
            (Key.Key_Period, Key.Key_PageDown),
            (Key.Key_B, Key.Key_F5),
            (Key.Key_Period, Key.Key_Escape),
        ]
    ),
)
def test_a_clicker_blanks_the_screen_until_a_key(teacher: Hand, key: Key, back: Key) -> None:
    window = teacher.window
    place = window.controllers.playback_controller.place
    teacher.key(key)
    whole = window.grab(window.rect().adjusted(0, 0, 0, -window.statusBar().height())).toImage()
    (colour,) = _colours(whole)
    assert contrast(colour, window.theme.paper) < 1.05  # some screens round the value
    assert "any key" in teacher.status
    teacher.key(back)
    assert not window.controllers.presenter_mode.blank_screen_widget.isVisible()
    assert teacher.board.hasFocus()
    assert window.controllers.presenter_mode.is_on
    assert window.controllers.playback_controller.place == place
    assert "F5 or Esc: exit" in teacher.status


def _colours(image: QImage) -> set[str]:
    places = ((x, y) for y in range(0, image.height(), 3) for x in range(0, image.width(), 3))
    return {image.pixelColor(x, y).name() for x, y in places}


def test_a_click_takes_the_blank_away(teacher: Hand) -> None:
    teacher.key(Key.Key_B)
    teacher.click(teacher.window.controllers.presenter_mode.blank_screen_widget, QPoint(20, 20))
    assert not teacher.window.controllers.presenter_mode.blank_screen_widget.isVisible()


def test_b_is_a_letter_elsewhere(usual_size: None, hand: Hand) -> None:
    hand.settle()
    hand.board.setFocus()
    hand.key(Key.Key_B)
    assert not hand.window.controllers.presenter_mode.blank_screen_widget.isVisible()
    hand.key(Key.Key_F5)
    hand.trigger("module.open_settings")  # to type in presenter mode
    hand.type_sentence("A big cab.")
    hand.settle()
    assert not hand.window.controllers.presenter_mode.blank_screen_widget.isVisible()
    assert hand.window.workspace.document.text == "A big cab."


def test_every_action_still_has_its_keys(teacher: Hand) -> None:
    was = teacher.window.workspace.document.get_setting("causal")
    teacher.press(Key.Key_M, CONTROL)
    teacher.settle()
    assert teacher.window.workspace.document.get_setting("causal") != was


def test_frames_are_thicker_and_the_colours_stay(teacher: Hand) -> None:
    window = teacher.window
    assert window.theme.stroke > 1
    window.set_colour_scheme("dark")
    assert window.theme.stroke > 1
    assert window.theme.name == "dark"
    teacher.key(Key.Key_F5)
    assert window.theme.stroke == 1
    assert window.theme.name == "dark"


def test_the_previous_arrangement_is_stored(open_window: Open, usual_size: None) -> None:
    window = open_window(size=(700, 600))
    before = panes(window)
    window.controllers.presenter_mode.toggle()
    window.close()
    again = open_window(size=None)
    assert not again.isFullScreen()
    assert panes(again) == before
    assert again.width() == window.width()
    assert window.height() - again.height() < FRAME
    assert again.findChild(PlaybackBar) is not None
