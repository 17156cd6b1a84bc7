"""The stage bar shows every stage; those that do not fit are in a menu at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from visualizer.features.stage_bar.presenter import STAGE_BAR_PANEL
from visualizer.session.cell_address import Cell
from visualizer.widgets.fonts import larger_font
from visualizer.widgets.labels import PlainLabel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.window_input import Hand
    from visualizer.features.stage_bar.widget import StageBar


def everything(hand: Hand) -> None:
    """Have as many stages as attention can have at once."""
    hand.type_number("dropout", "0.5")
    hand.choose("position QComboBox", "Sinusoidal")
    hand.settle()


@pytest.fixture
def usual_font(hand: Hand) -> Iterator[None]:
    """Give the program its font back."""
    font = QApplication.font()
    yield
    QApplication.setFont(font)
    hand.window.set_scheme("light")


def shown(rail: StageBar) -> list[str]:
    """The stages with a button in the bar, all of which is seen."""
    buttons = [button for button in rail.buttons.values() if button.isVisible()]
    assert all(button.visibleRegion().boundingRect() == button.rect() for button in buttons)
    assert all(button.sizeHint().width() <= button.width() for button in buttons)
    return [button.accessibleName() for button in buttons]


def test_a_stage_that_goes_while_the_mouse_is_down_on_it_is_not_toggled(hand: Hand) -> None:
    everything(hand)
    button, left = hand.window.stage_bar.buttons["dropped"], Qt.MouseButton.LeftButton
    toggled: list[str] = []
    hand.window.stage_bar.stageToggled.connect(toggled.append)
    QTest.mousePress(button, left)
    hand.type_number("dropout", "0")
    hand.settle()
    assert not button.isVisible()
    assert button.isDown()
    QTest.mouseRelease(button, left)
    assert toggled == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scale"), [((560, 700), 1), ((520, 600), 1), ((760, 700), 1.5)])
def test_stages_without_room_are_in_a_menu(
    hand: Hand, size: tuple[int, int], scale: float, usual_font: None
) -> None:
    everything(hand)
    if scale > 1:
        QApplication.setFont(larger_font(scale))
        hand.window.set_scheme("light")
    hand.narrow(*size)
    rail = hand.window.stage_bar
    hand.until(rail.more.isVisible)
    hand.settle()
    assert rail.more.accessibleName() == "More stages"
    assert rail.more.geometry().right() <= rail.width()
    items = hand.window.workspace.screen.panel(STAGE_BAR_PANEL)
    every = [item.title for item in items]
    places = [hand.board.geometry()]
    in_menu = hand.read_menu(rail.more, lambda: places.append(hand.board.geometry()))
    in_bar = shown(rail)
    for names in (in_bar, [*in_menu]):
        assert names == [name for name in every if name in names]  # in their order
    assert {*in_bar, *in_menu} == {*every}
    assert len(in_bar) + len(in_menu) == len(every)
    assert places == [hand.board.geometry()] * 2
    on_board = {item.title for item in items if item.is_shown}
    assert on_board <= {*in_bar} or {*in_bar} <= on_board  # what is shown goes last
    assert in_menu["Output"] is False
    hand.choose_in_menu(rail.more, "Output")
    assert hand.stages[-1] == "output"
    QApplication.processEvents()
    assert "Output" in shown(rail) or {*shown(rail)} < {*on_board, "Output"}
    if "Input" in hand.read_menu(rail.more):
        hand.choose_in_menu(rail.more, "Input")
    else:
        hand.click(rail.buttons["input"])
        hand.settle()
    assert hand.stages[0] == "input"


def test_the_menu_of_stages_is_reached_by_keys(hand: Hand) -> None:
    everything(hand)
    hand.narrow(520)
    rail = hand.window.stage_bar
    hand.until(rail.more.isVisible)
    last = [button for button in rail.buttons.values() if button.isVisible()][-1]
    last.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(last, Qt.Key.Key_Tab)
    assert rail.more.hasFocus()
    hand.choose_last_by_keys(rail.more)
    assert hand.stages[-1] == "output"


def test_the_menu_closes_as_there_are_other_stages(hand: Hand) -> None:
    everything(hand)
    hand.narrow(520)
    rail = hand.window.stage_bar
    hand.until(rail.more.isVisible)
    open_ = []

    def change() -> None:
        open_.append(rail.overflow_menu.isVisible())
        hand.window.workspace.set("mechanism", "simplified")
        hand.settle()
        open_.append(rail.overflow_menu.isVisible())

    assert "Scaled" in hand.read_menu(rail.more, change)  # of which there are none any more
    assert open_ == [True, False]


def test_in_a_wide_window_all_of_it_is_seen(hand: Hand) -> None:
    hand.window.resize(2200, 800)
    everything(hand)
    rail = hand.window.stage_bar
    hand.until(lambda: not rail.more.isVisible())
    QApplication.processEvents()  # its buttons are laid out
    assert len(shown(rail)) > 10
    height = rail.height()
    hand.narrow(560, 700)
    hand.until(rail.more.isVisible)
    assert rail.height() == height
    hand.window.resize(2200, 800)
    hand.until(lambda: not rail.more.isVisible())
    QApplication.processEvents()  # its buttons are laid out
    assert len(shown(rail)) > 10


def test_a_double_click_shows_a_stage_alone(hand: Hand) -> None:
    hand.click_cell(Cell("scores", (0, 1, 0)))
    button = hand.window.stage_bar.buttons["masked"]
    hand.click(button)  # as a double click begins
    QTest.mouseDClick(button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.stages == ["masked"]
    assert hand.window.workspace.view.pinned is None


def test_an_arrow_leads_to_all_but_what_is_beside_another_stage(hand: Hand) -> None:
    rail = hand.window.stage_bar
    hand.window.workspace.set("mechanism", "block")
    hand.window.resize(1900, 800)
    hand.settle()
    offered = list(hand.window.workspace.run.trace.names) if hand.window.workspace.run else []
    without = [stage for stage in offered if not has_arrow(rail, stage)]
    assert without == ["input", "keys", "values"]
    hand.window.workspace.set("mechanism", "average")
    hand.settle()
    assert has_arrow(rail, "values")  # which has no queries beside it


def has_arrow(rail: StageBar, stage: str) -> bool:
    place = rail.buttons[stage].parentWidget()
    assert place
    return any(label.isVisibleTo(place) for label in place.findChildren(PlainLabel))
