"""Token selection in the window: tokens are selected, found and marked in the heatmaps."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.support.image_pixels import rgb_of
from tests.support.window_input import CONTROL, LEFT, PATIENCE_MS, SHIFT, Hand, words
from visualizer.attention import run as attention_run
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.token_selection import TokenRole

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Open
    from visualizer.features.token_strip.presenter import TokenWeights
    from visualizer.features.token_strip.widget import TokenPane

WITH = Cell("weights", (1, 3, 2))


@pytest.fixture
def pane(hand: Hand) -> TokenPane:
    hand.settle()
    hand.window.docks.open_pane("Tokens")
    made: TokenPane = hand.window.panes["Tokens"]
    return made


def click(hand: Hand, token: int, modifiers: Qt.KeyboardModifier) -> None:
    strip = hand.window.panes["Tokens"].strip
    QTest.mouseClick(strip.viewport(), LEFT, modifiers, strip.chip_rect(token).center().toPoint())
    hand.settle()


def shown(hand: Hand) -> TokenWeights:
    weights: TokenWeights | None = hand.window.panes["Tokens"].strip.tokens.weights
    assert weights is not None
    return weights


def weights(hand: Hand) -> np.ndarray:
    run = hand.window.workspace.run
    assert run is not None
    return np.asarray(run.trace.tensor("weights").double().numpy())  # head query key


def found_now(pane: TokenPane) -> tuple[set[int], str]:
    return set(pane.strip.tokens.chosen), words(pane.found)


NO = Qt.KeyboardModifier.NoModifier


def test_pointing_at_a_cell_colours_the_tokens(hand: Hand, pane: TokenPane) -> None:
    assert "6 tokens. Point at a cell" in words(pane.says)
    hand.hover(WITH)
    assert words(pane.says) == "Attention from with, head 2"
    assert shown(hand).values == pytest.approx(weights(hand)[1, 3])
    hand.leave()
    assert "6 tokens. Point at a cell" in words(pane.says)


def test_tokens_are_chosen_together_and_summed(hand: Hand, pane: TokenPane) -> None:
    click(hand, 3, NO)
    click(hand, 5, SHIFT)
    click(hand, 1, CONTROL)
    assert words(pane.says) == "Attention from 4 tokens, Σ of 4 queries, mean of 2 heads"
    rows = weights(hand).mean(0)[[1, 3, 4, 5]]
    assert shown(hand).values == pytest.approx(rows.sum(0))
    hand.click_cell(WITH)
    hand.settle()
    assert words(pane.says) == "Attention from 4 tokens, Σ of 4 queries, head 2"
    assert shown(hand).values == pytest.approx(weights(hand)[1, [1, 3, 4, 5]].sum(0))


def test_the_switch_turns_from_queries_to_keys(hand: Hand, pane: TokenPane) -> None:
    click(hand, 2, NO)
    hand.click(pane.roles[TokenRole.KEY])
    hand.settle()
    assert words(pane.says) == "Attention to starts, mean of 2 heads"
    assert shown(hand).values == pytest.approx(weights(hand).mean(0)[:, 2])
    assert pane.roles[TokenRole.KEY].isChecked()
    hand.trigger("token_selection.switch_role")
    hand.settle()
    assert pane.roles[TokenRole.QUERY].isChecked()
    assert words(pane.says) == "Attention from starts, mean of 2 heads"


def test_chosen_tokens_are_lit_in_the_panels(hand: Hand, pane: TokenPane) -> None:
    def accent() -> int:
        image = hand.board.viewport().grab().toImage()
        wanted = int(hand.window.theme.accent.removeprefix("#"), 16)
        return int((rgb_of(image) == wanted).sum())

    hand.leave()
    before = accent()
    click(hand, 1, NO)
    one = accent()
    click(hand, 4, CONTROL)
    assert before < one < accent()
    hand.trigger("token_selection.clear")
    hand.settle()
    assert accent() == before


def test_letting_go_by_keys(hand: Hand, pane: TokenPane) -> None:
    click(hand, 1, NO)
    pane.strip.setFocus()
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert hand.window.workspace.view.tokens.chosen == frozenset()


def test_a_change_of_the_numbers_is_seen_in_the_sums(hand: Hand, pane: TokenPane) -> None:
    click(hand, 5, NO)
    before = shown(hand).values
    hand.trigger("workspace.resample seed")
    hand.settle()
    assert not np.array_equal(shown(hand).values, before)
    assert shown(hand).values == pytest.approx(weights(hand).mean(0)[5])


def test_a_token_is_found(hand: Hand, pane: TokenPane) -> None:
    hand.press(Qt.Key.Key_F)
    assert pane.search.hasFocus()
    QTest.keyClicks(pane.search, "ST")
    hand.settle()
    assert found_now(pane) == ({2, 5}, "2 found")
    for modifiers, token, found in ((NO, 2, "1 of 2"), (NO, 5, "2 of 2"), (SHIFT, 2, "1 of 2")):
        hand.press(Qt.Key.Key_Return, modifiers)
        hand.settle()
        assert found_now(pane) == ({token}, found)
    QTest.keyClicks(pane.search, "x")
    hand.settle()
    assert found_now(pane) == (set(), "no matches")
    assert pane.search.text() == "STx"
    hand.key(Qt.Key.Key_Escape)
    hand.settle()
    assert not pane.search_edit.isVisible()
    assert pane.strip.hasFocus()
    assert pane.search.text() == ""


@pytest.mark.parametrize("is_pasted", [True, False])
def test_a_match_that_has_gone_from_the_text_is_gone_to_no_more(
    hand: Hand, pane: TokenPane, qtbot: QtBot, is_pasted: bool
) -> None:
    hand.press(Qt.Key.Key_F)
    QTest.keyClicks(pane.search, "step")
    hand.key(Qt.Key.Key_Return)
    hand.settle()
    assert found_now(pane) == ({5}, "1 of 1")
    if is_pasted:
        hand.paste_sentence("your journey starts with one fall")
    else:
        hand.click(hand.sentence.viewport())
        hand.press(Qt.Key.Key_End)
        for _ in " step":
            hand.key(Qt.Key.Key_Backspace)
    hand.settle()
    hand.click(pane.search)
    with qtbot.assertNotEmitted(hand.window.controllers.token_selection_controller.matchReached):
        hand.key(Qt.Key.Key_Return)
    hand.settle()
    assert found_now(pane) == (set(), "no matches")


def test_a_search_opens_the_pane_that_it_is_in(hand: Hand, pane: TokenPane) -> None:
    hand.window.docks.open_pane("Heads")
    hand.until(lambda: "Tokens" not in hand.window.docks.visible_pane_ids)
    hand.press(Qt.Key.Key_F)
    hand.until(pane.search.isVisible)
    assert "Tokens" in hand.window.docks.visible_pane_ids


def reading_words(open_window: Open, qtbot: QtBot, count: int) -> Hand:
    """Open a window with a text of the given number of words."""
    text = " ".join(f"w{number}" for number in range(count))
    opened = open_window(Document().with_setting("text", text))
    qtbot.waitUntil(lambda: opened.workspace.run is not None, timeout=6 * PATIENCE_MS)
    made = Hand(qtbot, opened)
    made.settle()
    return made


@pytest.fixture
def long(open_window: Open, qtbot: QtBot) -> Hand:
    return reading_words(open_window, qtbot, 300)


@pytest.mark.parametrize("role", TokenRole)
def test_a_found_token_is_seen_in_the_heatmaps(long: Hand, role: TokenRole) -> None:
    pane = long.window.panes["Tokens"]
    long.click(pane.roles[role])
    long.window.resize(700, 500)
    long.press(Qt.Key.Key_F)
    QTest.keyClicks(pane.search, "w29")
    long.settle()
    assert words(pane.found) == "11 found"
    long.key(Qt.Key.Key_Return)
    long.key(Qt.Key.Key_Return)
    long.settle()
    place = (0, 290, 0) if role is TokenRole.QUERY else (0, 0, 290)
    area = long.board.area_of_cell(Cell("scores", place))
    assert area is not None
    assert long.board.viewport().rect().intersects(area)
    assert pane.strip.viewport().rect().intersects(pane.strip.chip_rect(290).toAlignedRect())


def test_a_search_after_zooming_into_a_longer_text_leaves_a_document_that_opens(
    hand: Hand,
) -> None:
    """The zoom of the longer text remains, and the search pans it to the first token."""
    hand.type_sentence(" ".join(f"w{number}" for number in range(12)))
    hand.settle()
    hand.window.controllers.view_controller.zoom_in()
    hand.settle()
    hand.type_sentence("w0 w1 w2")
    hand.settle()
    hand.press(Qt.Key.Key_F)
    QTest.keyClicks(hand.window.panes["Tokens"].search, "w2")
    hand.settle()
    hand.key(Qt.Key.Key_Return)
    hand.settle()
    workspace = hand.window.workspace
    saved = read_document(BytesIO(document_bytes(workspace.document, workspace.view)))
    assert (saved.document, saved.view.tokens) == (workspace.document, workspace.view.tokens)
    assert found_now(hand.window.panes["Tokens"]) == ({2}, "1 of 1")


@pytest.fixture
def by_blocks(open_window: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Open a window with a text whose query–key matrices are not stored."""
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    return reading_words(open_window, qtbot, 1200)


def test_what_is_read_in_a_long_text_comes_without_waiting_for_it(by_blocks: Hand) -> None:
    window, pane = by_blocks.window, by_blocks.window.panes["Tokens"]
    assert window.workspace.run
    assert window.workspace.run.trace.is_blockwise
    QTest.keyClick(pane.strip, Qt.Key.Key_End)
    click(by_blocks, 1190, NO)
    by_blocks.until(lambda: pane.strip.tokens.weights is not None)
    assert words(pane.says) == "Attention from w1190, mean of 2 heads"
    row = window.workspace.run.trace.read("weights", (slice(None), 1190)).mean(axis=0)
    assert shown(by_blocks).values == pytest.approx(row, rel=1e-4)
    by_blocks.trigger("token_selection.switch_role")
    by_blocks.until(lambda: words(pane.says) == "Attention to w1190, mean of 2 heads")
    column = window.workspace.run.trace.read("weights")[:, :, 1190].mean(axis=0)
    assert shown(by_blocks).values == pytest.approx(column, rel=1e-4)
    assert shown(by_blocks).forbidden.tolist() == [True] * 1190 + [False] * 10


def test_a_search_in_a_long_text_goes_to_its_first_match(by_blocks: Hand) -> None:
    strip = by_blocks.window.panes["Tokens"].strip
    by_blocks.press(Qt.Key.Key_F)
    QTest.keyClicks(by_blocks.window.panes["Tokens"].search, "w119")
    by_blocks.settle()
    assert found_now(by_blocks.window.panes["Tokens"]) == ({119, *range(1190, 1200)}, "11 found")
    assert strip.viewport().rect().contains(strip.chip_rect(119).toAlignedRect())
    by_blocks.key(Qt.Key.Key_Return)
    by_blocks.key(Qt.Key.Key_Return)
    by_blocks.until(lambda: strip.viewport().rect().contains(strip.chip_rect(1190).toAlignedRect()))


def test_a_number_finds_its_token_and_a_command_the_largest_weight(by_blocks: Hand) -> None:
    pane = by_blocks.window.panes["Tokens"]
    by_blocks.press(Qt.Key.Key_F)
    QTest.keyClicks(pane.search, "#1,001")
    by_blocks.settle()
    assert found_now(pane) == ({1000}, "1 found")
    by_blocks.until(lambda: words(pane.says) == "Attention from w1000, mean of 2 heads")
    by_blocks.trigger("token_selection.go_to_largest_weight")
    largest = int(shown(by_blocks).values.argmax())
    assert pane.strip.viewport().rect().contains(pane.strip.chip_rect(largest).toAlignedRect())
    assert pane.strip.hasFocus()
    by_blocks.press(Qt.Key.Key_F)
    QTest.keyClicks(pane.search, "#1,201")
    by_blocks.settle()
    assert found_now(pane) == (set(), "no matches")
