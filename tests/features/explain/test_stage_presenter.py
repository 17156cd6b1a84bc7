"""While no cell is explained, the Explain pane explains the stage in focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtTest import QTest

from tests.support.screens import resolved
from tests.support.small_runs import replayed
from visualizer.features.explain.stage_presenter import (
    EMPTY_STAGE,
    STAGE_PANEL,
    StageExplanation,
    present_stage_explanation,
)
from visualizer.features.explain.widget import PANE_WIDTH_PX, ExplainPane
from visualizer.session.cell_address import Cell
from visualizer.session.view import View
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand


def _on_flow_board(hand: Hand) -> ExplainPane:
    hand.click(hand.window.view_bar.buttons["view.show_flow"])
    hand.settle()
    pane: ExplainPane = hand.window.panes["Explain"]
    return pane


def _panel(hand: Hand) -> StageExplanation:
    screen = hand.window.workspace.screen
    return screen.panel(STAGE_PANEL)


def test_the_stage_in_focus_is_explained_until_a_cell_is(hand: Hand) -> None:
    pane = _on_flow_board(hand)
    assert pane.heading.text() == "Weights"
    assert "softmax" in pane.sentence.text()
    hand.window.controllers.view_controller.focus_stage("keys")
    hand.settle()
    assert pane.heading.text() == "Keys"
    assert "W<sub>k</sub>" in pane.sentence.text()
    hand.hover(Cell("weights", (0, 3, 1)))
    assert "query 4" in pane.heading.text()
    hand.leave()
    assert pane.heading.text() == "Keys"


def test_a_prediction_is_not_revealed_by_the_stage(hand: Hand) -> None:
    _on_flow_board(hand)
    assert _panel(hand) != EMPTY_STAGE
    hand.trigger("playback.predict")
    hand.settle()
    assert hand.window.workspace.view.guess
    assert _panel(hand) == EMPTY_STAGE


def test_the_grid_explains_no_stage(hand: Hand) -> None:
    assert _panel(hand) == EMPTY_STAGE


def test_the_heading_names_the_layer_of_a_model() -> None:
    shown = resolved(replayed(), View(flow=True, layer=1))
    assert "layer 2" in present_stage_explanation(shown, EMPTY_STAGE).heading


def test_a_sentence_that_appears_below_another_needs_no_scroll_bar(qtbot: QtBot) -> None:
    pane = ExplainPane()
    qtbot.addWidget(pane)
    pane.resize(PANE_WIDTH_PX, 600)
    pane.show()
    QTest.qWaitForWindowExposed(pane)
    stage = StageExplanation("Weights", " ".join(["softmax"] * 20))
    pane.show_cell(None, LIGHT, stage)
    assert pane.value.isVisible()
    qtbot.waitUntil(lambda: pane.scroll_area.verticalScrollBar().maximum() == 0, timeout=2000)
