"""The cards of the strongest heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication

from visualizer.features.layer_overview.findings import Finding
from visualizer.features.layer_overview.findings_widget import FindingsRow
from visualizer.features.layer_overview.presenter import LayerOverviewPanel
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

FOUND = (
    Finding("Previous token", (1, 2), "attends to the previous token", "84%", "19%"),
    Finding("First token", (0, 3), "attends to the first token", "99%", "26%"),
)
PANEL = LayerOverviewPanel(layers=(4, 7), is_switchable=True, findings=FOUND)


@pytest.fixture
def row(qtbot: QtBot) -> FindingsRow:
    made = FindingsRow()
    qtbot.addWidget(made)
    made.resize(800, 300)
    made.show_panel(PANEL, LIGHT)
    made.show()
    return made


def right_click(row: FindingsRow, card: int) -> None:
    at = QPoint(9, 9)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, row.cards[card].mapToGlobal(at))
    QApplication.sendEvent(row.cards[card], event)


def test_a_right_click_requests_the_menu_of_the_head_of_a_card(
    row: FindingsRow, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(row.headMenuRequested) as requested:
        right_click(row, 0)
    assert tuple(requested.args[:2]) == FOUND[0].place


def test_a_card_without_a_finding_keeps_none(row: FindingsRow, qtbot: QtBot) -> None:
    row.show_panel(replace(PANEL, findings=FOUND[1:]), LIGHT)
    assert [card.finding for card in row.cards] == [FOUND[1], None]
    with qtbot.assertNotEmitted(row.headMenuRequested):
        right_click(row, 1)
