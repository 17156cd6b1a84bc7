"""The overview of all heads replaces the heatmaps, and they can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.window_input import Hand
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.features.layer_overview.presenter import LAYERS_PANEL
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder
from visualizer.session.pane_spec import PaneArea
from visualizer.shell.pane_table import PANES

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Open
    from visualizer.features.layer_overview.widget import LayerOverviewPane

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
SHIFT = Qt.KeyboardModifier.ShiftModifier
TOKENS = ("a", "b", "c", "d", "e")
"""Tokens without repetition, so no head can attend to an earlier occurrence."""


def three_layers() -> np.ndarray:
    """Return the weights of uniform heads and of one previous-token head (layer 3, head 2)."""
    uniform = np.tri(5) / np.arange(1, 6)[:, None]
    weights = np.tile(uniform, (3, 2, 1, 1)).astype(np.float32)
    weights[2, 1] = np.eye(5, k=-1)
    weights[2, 1, 0, 0] = 1
    return weights


@pytest.fixture
def captured(hand: Hand) -> Hand:
    """Open the attention of three layers."""
    document = Document(captured=CapturedAttention.from_array("made", three_layers(), TOKENS))
    hand.show_document(document)
    hand.until(lambda: overview(hand).isVisible())
    hand.settle()
    return hand


def overview(hand: Hand) -> LayerOverviewPane:
    page: LayerOverviewPane = hand.window.panes["Layers"]
    return page


def is_overview_shown(hand: Hand) -> bool:
    """Return whether the overview is displayed instead of the heatmaps."""
    is_shown = overview(hand).isVisible()
    assert hand.board.isVisible() != is_shown
    assert ("Layers" in hand.window.workspace.requested_view.panes) == is_shown
    return is_shown


def head_in_front(hand: Hand) -> tuple[int, int]:
    resolved = hand.window.workspace.screen.resolved
    assert resolved
    assert resolved.flow
    return resolved.leading[0], resolved.flow.head


def test_a_model_opens_on_its_overview_with_the_next_tokens(
    hand: Hand, tiny_model_folder: Path
) -> None:
    hand.settle()
    hand.window.controllers.document_controller.open(tiny_model_folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    hand.until(overview(hand).isVisible)
    hand.settle()
    assert is_overview_shown(hand)
    run = hand.window.workspace.run
    assert run
    assert run.reading
    rows = overview(hand).next_tokens.bars.rows
    expected = sorted((row.probability for row in run.reading.next_tokens), reverse=True)
    assert [row.probability for row in rows] == expected[: len(rows)]
    hand.window.workspace.change_setting("model", None)
    hand.settle()
    assert not is_overview_shown(hand)


def test_the_heatmaps_stay_until_the_overview_has_its_content(
    open_window: Open, qtbot: QtBot
) -> None:
    document = Document(captured=CapturedAttention.from_array("made", three_layers(), TOKENS))
    hand = Hand(qtbot, open_window(document))
    seen: list[bool] = []
    hand.window.docks.by_id["Layers"].visibilityChanged.connect(
        lambda is_shown: seen.append(
            is_shown and hand.window.workspace.screen.panel(LAYERS_PANEL).weights is not None
        )
    )
    hand.until(overview(hand).isVisible)
    assert seen == [True]


def test_a_module_opens_on_its_heatmaps(hand: Hand) -> None:
    hand.settle()
    assert not is_overview_shown(hand)
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Escape)
    assert not is_overview_shown(hand)


def test_escape_returns_to_the_overview_from_a_pane(captured: Hand) -> None:
    hand = captured
    grid = overview(hand).grid
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Return)
    hand.settle()
    hand.window.docks.open_pane("Explain")
    hand.window.panes["Explain"].scroll_area.setFocus()
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert is_overview_shown(hand)


def test_a_button_in_the_settings_bar_returns_to_the_overview(captured: Hand) -> None:
    hand = captured
    grid = overview(hand).grid
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Return)
    hand.settle()
    assert not is_overview_shown(hand)
    hand.click(hand.window.settings_bar.overview_button)
    hand.settle()
    assert is_overview_shown(hand)


def test_enter_opens_a_head_and_escape_returns(captured: Hand) -> None:
    hand = captured
    grid = overview(hand).grid
    grid.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Return):
        QTest.keyClick(grid, key)
    hand.settle()
    assert not is_overview_shown(hand)
    assert head_in_front(hand) == (2, 1)
    assert hand.board.hasFocus()
    hand.click_cell(Cell("weights", (1, 3, 2)))
    hand.settle()
    assert hand.window.workspace.view.pinned is not None
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert hand.window.workspace.view.pinned is None
    assert not is_overview_shown(hand)
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert is_overview_shown(hand)
    assert grid.hasFocus()
    assert hand.window.workspace.screen.panel(LAYERS_PANEL).shown == {(2, 1)}


def test_its_shortcut_shows_it_and_the_heatmaps_in_turn(captured: Hand) -> None:
    for expected in (False, True, False):
        captured.trigger("pane.toggle Layers")
        captured.settle()
        assert is_overview_shown(captured) is expected
        assert captured.window.docks.actions["Layers"].isChecked() is expected


@pytest.mark.parametrize("command", ["playback.go_to_start", "mask_edit.toggle"])
def test_changes_in_the_heatmaps_bring_them_to_the_front(hand: Hand, command: str) -> None:
    hand.settle()
    hand.window.docks.open_pane("Layers")
    hand.settle()
    assert is_overview_shown(hand)
    hand.window.actions_.by_id[command].trigger()
    hand.settle()
    assert not is_overview_shown(hand)


def test_cards_show_the_heads_that_stand_out(captured: Hand) -> None:
    hand, page = captured, overview(captured)
    found = {card.finding.title: card for card in page.findings.cards if card.finding}
    assert found.keys() == {"Previous token", "Spread"}
    card = found["Previous token"]
    assert card.finding
    assert card.finding.place == (2, 1)
    assert card.finding.chance == f"{np.mean([1 / (at + 1) for at in range(1, 5)]):.0%}"
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    hand.settle()
    assert head_in_front(hand) == (2, 1)
    assert not is_overview_shown(hand)


def test_random_weights_have_no_findings(hand: Hand) -> None:
    hand.settle()
    hand.window.docks.open_pane("Layers")
    hand.settle()
    panel = hand.window.workspace.screen.panel(LAYERS_PANEL)
    assert panel.is_random
    assert not panel.findings
    row = overview(hand).findings
    assert row.isVisible()
    assert "random" in row.note.text()
    assert not any(card.isVisible() for card in row.cards)


def test_layers_are_from_left_to_right_and_heads_downwards(captured: Hand) -> None:
    grid = overview(captured).grid
    places = captured.window.workspace.screen.panel(LAYERS_PANEL).places
    boxes = {place: grid.heatmap_rect(at) for at, place in enumerate(places)}
    lefts = {layer: {boxes[layer, head].left() for head in range(2)} for layer in range(3)}
    tops = {head: {boxes[layer, head].top() for layer in range(3)} for head in range(2)}
    assert all(len(each) == 1 for each in (*lefts.values(), *tops.values()))
    assert min(lefts[0]) < min(lefts[1]) < min(lefts[2])
    assert min(tops[0]) < min(tops[1])


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080), (900, 640)])
def test_the_parts_of_the_page_do_not_overlap(captured: Hand, size: tuple[int, int]) -> None:
    captured.window.resize(*size)
    for order in (HeadOrder.LAYER, HeadOrder.PREVIOUS):
        captured.window.workspace.change_view(head_order=order)
        captured.settle()
        QApplication.processEvents()
        page = overview(captured)
        parts = (page.grid, page.next_tokens, page.description, page.findings)
        areas = [part.geometry() for part in parts if part.isVisible()]
        assert all(page.rect().contains(area) for area in areas)
        assert not any(
            one.intersects(other) for at, one in enumerate(areas) for other in areas[:at]
        )
        assert captured.window.size().toTuple() == size


def test_heads_of_a_large_model_are_all_visible(open_window: Open, qtbot: QtBot) -> None:
    weights = np.ones((80, 64, 2, 2), np.float32) / 2
    document = Document(captured=CapturedAttention.from_array("large", weights, ("a", "b")))
    hand = Hand(qtbot, open_window(document))
    hand.window.resize(1280, 800)
    hand.until(lambda: overview(hand).isVisible())
    hand.settle()
    grid = overview(hand).grid
    assert not grid.has_hidden_heads
    last = grid.heatmap_rect(80 * 64 - 1)
    assert grid.viewport().rect().contains(last)
    assert grid.spacing >= 6


def test_only_one_pane_is_in_the_centre() -> None:
    assert [pane.id for pane in PANES if pane.area is PaneArea.CENTRE] == ["Layers"]
    assert all(bool(pane.subject) == (pane.area is PaneArea.CENTRE) for pane in PANES)
