"""The token strip of a long text: running text that is laid out in parts, and its overview."""

from __future__ import annotations

import gc
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from tests.support.window_input import CONTROL, LEFT, SHIFT
from visualizer.features.token_strip.chip_strip_widget import (
    MAX_CHIPS,
    MAX_TEXT_LINES,
    TOKENS_PER_LAYOUT_PART,
    TokenStrip,
    text_minimap_width,
)
from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
from visualizer.heatmap import colour_mapping
from visualizer.widgets.chip_area import WrappedChips
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

WORDS = tuple(f"w{number}" for number in range(3000))
MANY = tuple(f"w{number % 500}" for number in range(5 * TOKENS_PER_LAYOUT_PART))


@pytest.fixture
def strip(qtbot: QtBot) -> TokenStrip:
    made = TokenStrip()
    qtbot.addWidget(made)
    made.resize(300, 200)
    made.show()
    made.activateWindow()
    qtbot.waitExposed(made)
    return made


def show(strip: TokenStrip, tokens: TokenPanel, theme: Theme = LIGHT) -> None:
    """Show tokens in a strip that has the height of its size hint."""
    strip.show_tokens(tokens, theme)
    strip.resize(strip.width(), strip.sizeHint().height())


def weights_of(values: np.ndarray, known: int | None = None) -> TokenWeights:
    known = len(values) if known is None else known
    forbidden = np.arange(len(values)) >= 2000
    return TokenWeights(values, forbidden, "viridis", 0, 1, "<b>x</b> reads", range(known))


def line_of(strip: TokenStrip, token: int) -> int:
    tops = sorted({box.top() for box in strip.chips})
    return tops.index(strip.chips[token].top())


def first_visible(strip: TokenStrip) -> int:
    return next(token for token in range(len(strip.chips)) if strip.chip_rect(token).top() >= 0)


def scroll_to(strip: TokenStrip, token: int) -> None:
    """Scroll a token's line to the middle of the strip."""
    bar, half = strip.verticalScrollBar(), strip.viewport().height() / 2
    bar.setValue(round(strip.chips[token].top() - half))


def focused_token(strip: TokenStrip) -> int:
    """Return the token that Space selects."""
    chosen = chosen_by(strip)
    QTest.keyClick(strip, Qt.Key.Key_Space)
    (token,) = chosen[-1]
    return token


def middle(strip: TokenStrip, token: int) -> QPoint:
    return strip.chip_rect(token).center().toPoint()


def is_in_sight(strip: TokenStrip, token: int) -> bool:
    return strip.viewport().rect().contains(strip.chip_rect(token).toAlignedRect())


def background(strip: TokenStrip, token: int) -> str:
    at = strip.chip_rect(token).topLeft().toPoint() + QPoint(1, 1)
    return strip.viewport().grab().toImage().pixelColor(at).name()


def colour(entry: int, theme: Theme = LIGHT) -> str:
    return QColor(int(colour_mapping.colour_table("viridis", theme)[entry])).name()


def chosen_by(strip: TokenStrip) -> list[frozenset[int]]:
    found: list[frozenset[int]] = []
    strip.tokensChosen.connect(found.append)
    return found


# ------------------------------------------------------------------------------------- layout


def test_words_adjoin_in_lines_that_scroll(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS))
    lines: dict[float, list[int]] = {}
    for token, box in enumerate(strip.chips):
        lines.setdefault(box.top(), []).append(token)
        assert box.right() <= strip.viewport().width() - text_minimap_width()
    assert len([top for top in lines if top < strip.viewport().height()]) == MAX_TEXT_LINES
    for tokens in lines.values():
        boxes = [strip.chips[token] for token in tokens]
        assert all(one.right() == other.left() for one, other in pairwise(boxes))
    assert [*chain(*lines.values())] == [*range(len(WORDS))]
    bar = strip.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert is_in_sight(strip, len(WORDS) - 1)
    assert not is_in_sight(strip, 0)


def test_as_many_as_fit_are_chips_and_more_are_text(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS[:MAX_CHIPS]))
    chips = strip.chips[0].width(), strip.chips[0].height()
    show(strip, TokenPanel(WORDS[: MAX_CHIPS + 1]))
    assert strip.chips[0].width() < chips[0]
    assert strip.chips[0].height() < chips[1]
    show(strip, TokenPanel(WORDS[:6]))
    assert len(strip.chips) == 6


def test_a_line_break_ends_a_line(strip: TokenStrip) -> None:
    labels = ("a", "␣", "b", "⏎") * 500
    show(strip, TokenPanel(labels))
    tops = [strip.chips[token].top() for token in range(12)]
    assert tops[0] == tops[3] < tops[4] == tops[7] < tops[8]
    assert len({box.top() for box in strip.chips}) == 500


def test_a_text_is_laid_out_in_parts(strip: TokenStrip, qtbot: QtBot) -> None:
    show(strip, TokenPanel(MANY))
    first = strip.verticalScrollBar().maximum()
    assert len(strip.chips) < len(MANY)
    qtbot.waitUntil(lambda: len(strip.chips) == len(MANY))
    assert strip.verticalScrollBar().maximum() > 3 * first


def test_a_token_is_gone_to_before_it_is_laid_out(strip: TokenStrip, qtbot: QtBot) -> None:
    show(strip, TokenPanel(MANY))
    assert len(strip.chips) < len(MANY)
    QTest.keyClick(strip, Qt.Key.Key_End)
    QTest.keyClick(strip, Qt.Key.Key_Up)  # the line above has not been laid out yet
    chosen = chosen_by(strip)
    QTest.keyClick(strip, Qt.Key.Key_Space)
    assert chosen == [{len(MANY) - 1}]
    assert len(strip.chips) < len(MANY)
    qtbot.waitUntil(lambda: len(strip.chips) == len(MANY))
    assert is_in_sight(strip, len(MANY) - 1)
    assert all(
        one.right() == other.left() if one.top() == other.top() else one.top() < other.top()
        for one, other in pairwise(strip.chips)
    )


def test_what_is_read_comes_into_sight_when_it_is_laid_out_in_the_new_width(
    strip: TokenStrip, qtbot: QtBot
) -> None:
    show(strip, TokenPanel(MANY))
    qtbot.waitUntil(lambda: len(strip.chips) == len(MANY))
    bar = strip.verticalScrollBar()
    bar.setValue(bar.maximum() - 40 * bar.singleStep())
    first = first_visible(strip)
    for width in (180, 400):  # the second width before the layout is complete
        strip.resize(width, strip.height())
        assert len(strip.chips) < first
    qtbot.waitUntil(lambda: len(strip.chips) == len(MANY))
    assert is_in_sight(strip, first)


def test_another_text_replaces_one_that_is_not_laid_out(strip: TokenStrip, qtbot: QtBot) -> None:
    show(strip, TokenPanel(MANY))
    show(strip, TokenPanel(WORDS))
    QTest.keyClick(strip, Qt.Key.Key_End)
    qtbot.waitUntil(lambda: len(strip.chips) == len(WORDS))
    assert is_in_sight(strip, len(WORDS) - 1)


def test_only_lines_in_sight_are_painted(
    strip: TokenStrip, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(strip, TokenPanel(WORDS))
    scroll_to(strip, 1500)
    painted: list[int] = []
    boxes = WrappedChips.chip_rects_in_line

    def noted(chips: WrappedChips, line: int) -> list[QRectF]:
        painted.append(line)
        return boxes(chips, line)

    monkeypatch.setattr(WrappedChips, "chip_rects_in_line", noted)
    strip.viewport().grab()
    assert MAX_TEXT_LINES <= len(painted) <= MAX_TEXT_LINES + 2
    assert line_of(strip, 1500) in painted


def test_what_is_read_stays_in_sight_when_the_width_changes(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS))
    bar = strip.verticalScrollBar()
    bar.setValue(40 * bar.singleStep())
    first = first_visible(strip)
    assert first > 100
    for width in (180, 400, 301):
        strip.resize(width, strip.height())
        assert is_in_sight(strip, first)


# ------------------------------------------------------------------------------------ choosing


def test_words_are_chosen_like_chips(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS))
    chosen = chosen_by(strip)
    QTest.keyClick(strip, Qt.Key.Key_End)
    QTest.mouseClick(strip.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, middle(strip, 2990))
    QTest.mouseClick(strip.viewport(), LEFT, SHIFT, middle(strip, 2993))
    assert chosen == [{2990}, {2990, 2991, 2992, 2993}]
    QTest.keyClick(strip, Qt.Key.Key_A, CONTROL)
    assert chosen[-1] == {*range(len(WORDS))}


def test_up_and_down_go_from_line_to_line(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS))
    for _ in range(30):
        QTest.keyClick(strip, Qt.Key.Key_Down)
    assert line_of(strip, focused_token(strip)) == 30
    assert is_in_sight(strip, focused_token(strip))
    QTest.keyClick(strip, Qt.Key.Key_Up)
    assert line_of(strip, focused_token(strip)) == 29


def test_a_search_goes_to_the_next_match(strip: TokenStrip) -> None:
    tokens = TokenPanel(WORDS)
    show(strip, tokens)
    found = frozenset({700, 1500, 2500})
    strip.show_tokens(replace(tokens, sought="x", chosen=found, subjects=found), LIGHT)
    assert is_in_sight(strip, 700)
    scroll_to(strip, 1400)
    strip.show_tokens(replace(tokens, sought="xy", chosen=found, subjects=found), LIGHT)
    assert is_in_sight(strip, 1500)


# ------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_colour_of_a_word_is_that_of_its_weight(strip: TokenStrip, theme: Theme) -> None:
    strip.setStyleSheet(f"background: {theme.paper}")
    values = np.zeros(len(WORDS))
    values[[1, 2, 3]] = 0.25, 0.5, 1
    show(
        strip,
        TokenPanel(WORDS, query=0, subjects=frozenset({0}), weights=weights_of(values)),
        theme,
    )
    for token, entry in ((1, 63), (2, 126), (3, 252), (4, 0)):
        assert background(strip, token) == colour(entry, theme)
    scroll_to(strip, 2050)
    assert background(strip, 2050) == theme.mask.lower()


def test_words_whose_weights_are_not_known_have_no_colour(strip: TokenStrip) -> None:
    strip.setStyleSheet(f"background: {LIGHT.paper}")
    weights = weights_of(np.ones(len(WORDS)), known=3)
    show(strip, TokenPanel(WORDS, subjects=frozenset({0}), weights=weights))
    assert background(strip, 2) == colour(252)
    assert background(strip, 3) == LIGHT.paper.lower()


# ------------------------------------------------------------------------------------ overview


def over(strip: TokenStrip, token: int) -> QPoint:
    """Return the position of a token in the overview."""
    lines = len({box.top() for box in strip.chips})
    down = (line_of(strip, token) + 0.5) * strip.viewport().height() / lines
    return QPoint(strip.viewport().width() - 3, int(down))


def test_the_overview_shows_where_large_weights_are_and_leads_there(strip: TokenStrip) -> None:
    values = np.zeros(len(WORDS))
    values[1200] = 1
    show(strip, TokenPanel(WORDS, subjects=frozenset({5}), weights=weights_of(values)))
    image = strip.viewport().grab().toImage()
    assert image.pixelColor(over(strip, 1200)).name() == colour(252)
    assert image.pixelColor(over(strip, 600)).name() == colour(0)
    assert image.pixelColor(over(strip, 2500)).name() == LIGHT.mask.lower()
    chosen = chosen_by(strip)
    assert not is_in_sight(strip, 1200)
    QTest.mousePress(strip.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, over(strip, 1200))
    assert is_in_sight(strip, 1200)
    QTest.mouseMove(strip.viewport(), over(strip, 2500))
    assert is_in_sight(strip, 2500)
    QTest.mouseRelease(strip.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, over(strip, 2500))
    QTest.mouseMove(strip.viewport(), over(strip, 100))
    assert is_in_sight(strip, 2500)
    assert chosen == []


def test_the_overview_follows_new_weights_and_marks_whose_they_are(strip: TokenStrip) -> None:
    tokens = TokenPanel(WORDS)
    show(strip, tokens)
    scroll_to(strip, 2900)
    left = QPoint(round(strip.viewport().width() - text_minimap_width()) + 2, over(strip, 1000).y())
    assert strip.viewport().grab().toImage().pixelColor(left).name() == LIGHT.raised.lower()
    chosen = frozenset({1000, 2900})
    strip.show_tokens(replace(tokens, chosen=chosen, subjects=chosen), LIGHT)
    assert strip.viewport().grab().toImage().pixelColor(left).name() == LIGHT.accent.lower()


# ------------------------------------------------------------------------- the largest weights


def test_the_largest_weights_are_gone_to_in_turn(strip: TokenStrip) -> None:
    values = np.zeros(len(WORDS))
    values[[100, 1200, 1800, 2500]] = 0.2, 0.9, 0.5, 1.0  # the last one is masked
    tokens = TokenPanel(WORDS, subjects=frozenset({5}), weights=weights_of(values))
    show(strip, tokens)
    for token in (1200, 1800, 100, 1200):
        assert not is_in_sight(strip, token)
        strip.go_to_largest_weight()
        assert is_in_sight(strip, token)
        strip.show_tokens(replace(tokens, key=token, weights=weights_of(values.copy())), LIGHT)
    values = np.where(np.arange(len(WORDS)) == 300, 0.8, values)
    strip.show_tokens(replace(tokens, weights=weights_of(values)), LIGHT)
    strip.go_to_largest_weight()
    strip.go_to_largest_weight()
    assert is_in_sight(strip, 300)
    chosen = chosen_by(strip)
    QTest.keyClick(strip, Qt.Key.Key_Space)
    assert chosen == [{300}]


def test_without_weights_nothing_is_gone_to(strip: TokenStrip) -> None:
    show(strip, TokenPanel(WORDS))
    strip.go_to_largest_weight()
    strip.show_tokens(TokenPanel(WORDS, weights=weights_of(np.zeros(len(WORDS)))), LIGHT)
    strip.go_to_largest_weight()
    assert is_in_sight(strip, 0)


def test_a_strip_that_is_laid_out_may_be_closed(qtbot: QtBot) -> None:
    for parts in range(3):
        strip = TokenStrip()
        qtbot.addWidget(strip)
        strip.resize(300, 200)
        strip.show()
        show(strip, TokenPanel(MANY))
        for _ in range(parts):
            with qtbot.waitSignal(strip.verticalScrollBar().rangeChanged):
                pass
        assert len(strip.chips) < len(MANY)
        with qtbot.waitSignal(strip.destroyed):
            strip.close()
            strip.deleteLater()
        del strip
        gc.collect()
