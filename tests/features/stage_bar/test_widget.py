"""The stage bar shows every stage, and scrolls where they do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from tests.support.window_input import Hand


def everything(hand: Hand) -> None:
    """Have as many stages as there can be at once."""
    hand.type_number("dropout", "0.5")
    hand.choose("position QComboBox", "Sinusoidal")
    hand.settle()


def turn_wheel(hand: Hand, by: int) -> None:
    rail = hand.window.stage_bar
    centre = QPointF(rail.viewport().rect().center())
    none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    where = rail.viewport().mapToGlobal(centre)
    event = QWheelEvent(centre, where, QPoint(), QPoint(0, by), *none, False)
    QApplication.sendEvent(rail.viewport(), event)


def test_in_a_narrow_window_the_rail_scrolls(hand: Hand) -> None:
    everything(hand)
    hand.window.resize(1000, 700)
    rail = hand.window.stage_bar
    bar = rail.horizontalScrollBar()
    hand.until(lambda: bar.isVisible() and bar.maximum() > 0)
    last = rail.button("output")
    assert last.visibleRegion().boundingRect().width() < last.width()
    for _ in range(20):
        turn_wheel(hand, -120)
    assert bar.value() == bar.maximum()
    assert last.visibleRegion().boundingRect() == last.rect()
    turn_wheel(hand, 120)
    assert bar.value() < bar.maximum()


def test_in_a_wide_window_all_of_it_is_seen(hand: Hand) -> None:
    hand.window.resize(2200, 800)
    everything(hand)
    rail = hand.window.stage_bar
    hand.until(lambda: rail.horizontalScrollBar().maximum() == 0)
    narrow = rail.height()
    shown = [button for button in rail._buttons.values() if not button.isHidden()]
    assert len(shown) > 10
    assert all(button.visibleRegion().boundingRect() == button.rect() for button in shown)
    hand.window.resize(1000, 700)
    hand.until(lambda: rail.height() > narrow)  # the bar has height of its own
    assert not rail.horizontalScrollBar().isHidden()


def test_a_double_click_shows_a_stage_alone(hand: Hand) -> None:
    hand.click_cell(Cell("scores", (0, 1, 0)))
    button = hand.window.stage_bar.button("masked")
    hand.click(button)  # as a double click begins
    QTest.mouseDClick(button, Qt.MouseButton.LeftButton)
    hand.settle()
    assert hand.stages == ["masked"]
    assert hand.window.workspace.view.pinned is None
