"""The token strip: chips selected by mouse and keyboard, coloured by attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from tests.support.window_input import CONTROL, LEFT, SHIFT
from visualizer.features.token_strip.chip_strip_widget import MAX_CHIP_LINES, TokenStrip
from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
from visualizer.features.token_strip.widget import TokenColourBar
from visualizer.heatmap import colour_mapping
from visualizer.session.token_selection import TokenSelection
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand

WORDS = ("Your", "journey", "starts", "with", "one", "step")
VALUES = np.array((0.25, 0.5, 0.0, 1.0, 0.125, float("nan")))
SHARES = TokenWeights(VALUES, np.arange(6) == 2, "viridis", 0, 1, "<b>x</b> reads")
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def strip(qtbot: QtBot) -> TokenStrip:
    made = TokenStrip()
    qtbot.addWidget(made)
    made.resize(216, 200)
    made.show()
    made.activateWindow()
    qtbot.waitExposed(made)
    return made


class Chosen:
    """Shows the selection that the strip emits, as the window does, and stores it."""

    def __init__(self, strip: TokenStrip, words: tuple[str, ...] = WORDS) -> None:
        self.strip, self.tokens = strip, TokenPanel(words)
        strip.show_tokens(self.tokens, LIGHT)
        strip.tokensChosen.connect(self._take)

    def _take(self, chosen: frozenset[int]) -> None:
        self.tokens = replace(self.tokens, chosen=chosen, subjects=chosen)
        self.strip.show_tokens(self.tokens, LIGHT)

    @property
    def now(self) -> set[int]:
        return set(self.tokens.chosen)


@pytest.fixture
def chosen(strip: TokenStrip) -> Chosen:
    return Chosen(strip)


def middle(strip: TokenStrip, token: int) -> QPoint:
    return strip.chip_rect(token).center().toPoint()


def click(strip: TokenStrip, token: int, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.mouseClick(strip.viewport(), LEFT, modifiers, middle(strip, token))


def colours_of(strip: TokenStrip, token: int) -> set[str]:
    image = strip.viewport().grab(strip.chips[token].toAlignedRect()).toImage()
    area = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(x, y).name().upper() for x, y in area}


def fill(strip: TokenStrip, token: int) -> str:
    """Return the fill colour of a chip."""
    image = strip.viewport().grab().toImage()
    at = strip.chips[token].topLeft().toPoint() + QPoint(4, 4)
    return image.pixelColor(at).name().upper()


# ------------------------------------------------------------------------------------- room


def test_chips_flow_over_lines_and_do_not_overlap(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    boxes = strip.chips
    assert len(boxes) == len(WORDS)
    assert len({box.top() for box in boxes}) > 1
    for number, box in enumerate(boxes):
        assert box.right() <= strip.viewport().width()
        assert not [other for other in boxes[number + 1 :] if other.intersects(box)]
    assert strip.sizeHint().height() >= boxes[-1].bottom()


def test_of_many_tokens_a_few_lines_are_shown_and_all_can_be_reached(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS * 160), LIGHT)
    strip.resize(216, strip.sizeHint().height())
    seen = {box.top() for box in strip.chips if box.bottom() <= strip.viewport().height()}
    assert len(seen) == MAX_CHIP_LINES
    assert all(box.right() <= strip.viewport().width() for box in strip.chips)
    bar = strip.verticalScrollBar()
    bar.setValue(bar.maximum())
    last = strip.chip_rect(len(strip.chips) - 1)
    assert 0 < last.top() < last.bottom() <= strip.viewport().height()
    assert strip.accessibleName().startswith("Tokens: 960 tokens, Your journey")


def test_a_long_token_is_cut_to_the_width(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(("x" * 500, "y")), LIGHT)
    assert strip.chips[0].width() <= strip.width()
    assert len(strip.chips) == 2


def test_a_narrower_strip_has_more_lines(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    before = strip.sizeHint().height()
    strip.resize(90, 200)
    assert strip.sizeHint().height() > before


def test_no_tokens_take_no_chips(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(), LIGHT)
    assert not strip.chips
    assert not strip.grab().isNull()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Space, Qt.Key.Key_End):
        QTest.keyClick(strip, key)


def test_nothing_moves_when_colours_come_and_go(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    before = list(strip.chips)
    strip.show_tokens(TokenPanel(WORDS, subjects=frozenset({1}), weights=SHARES), LIGHT)
    assert list(strip.chips) == before


# ----------------------------------------------------------------------------------- colours


def test_the_query_is_filled_and_the_key_is_outlined(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    assert LIGHT.accent not in colours_of(strip, 1) | colours_of(strip, 0)
    strip.show_tokens(TokenPanel(WORDS, query=1, key=0), LIGHT)
    assert LIGHT.on_accent in colours_of(strip, 1)
    assert LIGHT.accent in colours_of(strip, 1)
    assert LIGHT.raised in colours_of(strip, 0)
    assert LIGHT.accent in colours_of(strip, 0)
    assert LIGHT.accent not in colours_of(strip, 2)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_each_token_has_the_colour_of_its_share(strip: TokenStrip, theme: Theme) -> None:
    strip.show_tokens(TokenPanel(WORDS, subjects=frozenset({3}), query=3, weights=SHARES), theme)
    table = colour_mapping.colour_table("viridis", theme)
    for token, entry in ((0, 63), (1, 126), (4, 32), (5, colour_mapping.NAN_COLOUR_INDEX)):
        assert fill(strip, token) == QColor(int(table[entry])).name().upper()
    assert fill(strip, 2) == theme.mask.upper()
    assert fill(strip, 3) == QColor(int(table[colour_mapping.MAX_COLOUR_INDEX])).name().upper()
    assert theme.accent in colours_of(strip, 3)


def test_the_numbers_are_told(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS, weights=SHARES), LIGHT)
    told = "x reads: Your 0.25, journey 0.50, starts 0.00, with 1.00, one 0.12, step NaN"
    assert strip.accessibleDescription() == told
    assert strip.tooltip_text(4) == "one, token 5: 0.1250"
    assert strip.tooltip_text(2) == "starts, token 3: masked"
    strip.show_tokens(TokenPanel(WORDS, weights=replace(SHARES, known=range(4))), LIGHT)
    assert (strip.tooltip_text(3), strip.tooltip_text(4)) == (
        "with, token 4: 1.0000",
        "one, token 5",
    )
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    assert (strip.accessibleDescription(), strip.tooltip_text(4)) == ("", "one, token 5")


# ---------------------------------------------------------------------------------- the mouse


def test_a_click_chooses_and_a_second_one_lets_go(strip: TokenStrip, chosen: Chosen) -> None:
    click(strip, 2)
    assert chosen.now == {2}
    click(strip, 4)
    assert chosen.now == {4}
    click(strip, 4)
    assert chosen.now == set()


def test_spans_and_single_tokens_are_added(strip: TokenStrip, chosen: Chosen) -> None:
    click(strip, 1)
    click(strip, 3, SHIFT)
    assert chosen.now == {1, 2, 3}
    click(strip, 0, SHIFT)
    assert chosen.now == {0, 1}
    click(strip, 5, CONTROL)
    assert chosen.now == {0, 1, 5}
    click(strip, 3, CONTROL | SHIFT)
    assert chosen.now == {0, 1, 3, 4, 5}
    click(strip, 4, CONTROL)
    assert chosen.now == {0, 1, 3, 5}


def test_tokens_are_dragged_over(strip: TokenStrip, chosen: Chosen) -> None:
    view = strip.viewport()
    QTest.mousePress(view, LEFT, NONE, middle(strip, 4))
    for token in (3, 1, 2):
        QTest.mouseMove(view, middle(strip, token))
    assert chosen.now == {2, 3, 4}
    QTest.mouseRelease(view, LEFT, NONE, middle(strip, 2))
    QTest.mouseMove(view, middle(strip, 0))
    assert chosen.now == {2, 3, 4}


def test_a_press_beside_the_tokens_chooses_nothing(strip: TokenStrip, chosen: Chosen) -> None:
    click(strip, 2)
    nowhere = QPoint(strip.viewport().width() - 1, strip.viewport().height() - 1)
    QTest.mousePress(strip.viewport(), LEFT, NONE, nowhere)
    QTest.mouseMove(strip.viewport(), middle(strip, 4))
    QTest.mouseRelease(strip.viewport(), LEFT, NONE, middle(strip, 4))
    assert chosen.now == {2}


# ----------------------------------------------------------------------------------- the keys


def test_keys_walk_toggle_extend_and_clear(strip: TokenStrip, chosen: Chosen) -> None:
    strip.setFocus()
    QTest.keyClick(strip, Qt.Key.Key_Right)
    assert chosen.now == set()
    QTest.keyClick(strip, Qt.Key.Key_Space)
    assert chosen.now == {1}
    QTest.keyClick(strip, Qt.Key.Key_Right, SHIFT)
    QTest.keyClick(strip, Qt.Key.Key_Right, SHIFT)
    assert chosen.now == {1, 2, 3}
    QTest.keyClick(strip, Qt.Key.Key_Left, SHIFT)
    assert chosen.now == {1, 2}
    QTest.keyClick(strip, Qt.Key.Key_End)
    QTest.keyClick(strip, Qt.Key.Key_Space)
    assert chosen.now == {1, 2, 5}
    QTest.keyClick(strip, Qt.Key.Key_Space)
    assert chosen.now == {1, 2}
    QTest.keyClick(strip, Qt.Key.Key_Escape)
    assert chosen.now == set()
    QTest.keyClick(strip, Qt.Key.Key_A, CONTROL)
    assert chosen.now == set(range(6))


def test_up_and_down_go_to_the_nearest_of_the_next_line(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(tuple(f"w{number}" for number in range(100))), LIGHT)
    chosen: list[frozenset[int]] = []
    strip.tokensChosen.connect(chosen.append)
    line = [box.top() for box in strip.chips].count(strip.chips[0].top())
    for key, token in (
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_Down, 1 + line),
        (Qt.Key.Key_Down, 1 + 2 * line),
        (Qt.Key.Key_Up, 1 + line),
        (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_Left, 0),
        (Qt.Key.Key_Up, 0),
    ):
        QTest.keyClick(strip, key)
        QTest.keyClick(strip, Qt.Key.Key_Space)  # selects the current token
        (reached,) = chosen[-1]
        assert strip.chips[reached].center().y() == strip.chips[token].center().y()
        assert abs(reached - token) <= 1


def test_keys_scroll_to_where_they_are(strip: TokenStrip) -> None:
    strip.show_tokens(TokenPanel(WORDS * 100), LIGHT)
    strip.resize(216, strip.sizeHint().height())
    QTest.keyClick(strip, Qt.Key.Key_End)
    assert strip.viewport().rect().contains(middle(strip, 599))
    QTest.keyClick(strip, Qt.Key.Key_Home)
    assert strip.viewport().rect().contains(middle(strip, 0))


def test_the_token_that_the_keys_are_on_is_marked(strip: TokenStrip, qtbot: QtBot) -> None:
    strip.show_tokens(TokenPanel(WORDS), LIGHT)
    strip.clearFocus()
    before = strip.viewport().grab().toImage()
    strip.setFocus()
    qtbot.waitUntil(strip.hasFocus)
    assert strip.viewport().grab().toImage() != before


def test_the_token_that_is_looked_at_is_in_sight(strip: TokenStrip) -> None:
    tokens = TokenPanel(WORDS * 100)
    strip.show_tokens(tokens, LIGHT)
    strip.resize(216, strip.sizeHint().height())
    strip.show_tokens(replace(tokens, query=400, subjects=frozenset({400})), LIGHT)
    assert strip.viewport().rect().contains(middle(strip, 400))


def test_what_was_chosen_of_a_text_is_not_chosen_of_another(hand: Hand) -> None:
    look = TokenSelection(chosen=frozenset({1, 3}))
    hand.window.workspace.change_view(tokens=look)
    hand.type_sentence("a")
    hand.settle()
    assert hand.window.workspace.view.tokens.chosen == frozenset()
    hand.window.workspace.change_view(tokens=replace(look, chosen=frozenset({0})))
    QTest.keyClicks(hand.sentence, " cat")  # the first token remains the same
    hand.settle()
    assert hand.window.workspace.view.tokens.chosen == frozenset({0})


@pytest.mark.parametrize(("part_of_width", "is_painted"), [(1.0, True), (0.4, False)])
def test_a_colour_bar_without_room_for_colours_is_empty(
    qtbot: QtBot, part_of_width: float, is_painted: bool
) -> None:
    bar = TokenColourBar()
    qtbot.addWidget(bar)
    bar.resize(round(bar.sizeHint().width() * part_of_width), bar.sizeHint().height())
    empty = bar.grab().toImage()
    bar.show_weights(replace(SHARES, high=1.25, is_exceeded=True), LIGHT)
    assert (bar.grab().toImage() != empty) is is_painted
