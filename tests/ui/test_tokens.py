"""The token strip shows as many chips as fit and says how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.state.screen import Tokens
from visualizer.ui.theme import LIGHT
from visualizer.ui.tokens import LINES, TokenStrip

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

WORDS = ("Your", "journey", "starts", "with", "one", "step")


@pytest.fixture
def strip(qtbot: QtBot) -> TokenStrip:
    made = TokenStrip()
    qtbot.addWidget(made)
    made.resize(216, 200)
    made.show()
    return made


def colours(strip: TokenStrip, chip: int) -> set[str]:
    image = strip.grab(strip._chips[chip][1].toAlignedRect()).toImage()
    area = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(x, y).name().upper() for x, y in area}


def test_chips_flow_over_lines_and_do_not_overlap(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(WORDS), LIGHT)
    boxes = [box for _, box in strip._chips]
    assert len(boxes) == len(WORDS)
    assert len({box.top() for box in boxes}) > 1
    for number, box in enumerate(boxes):
        assert box.right() <= strip.width()
        assert not [other for other in boxes[number + 1 :] if other.intersects(box)]
    assert strip.sizeHint().height() > boxes[-1].bottom()
    assert strip._counted() == "6 tokens"


def test_of_many_tokens_a_few_lines_are_shown(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(WORDS * 500), LIGHT)
    shown = len(strip._chips)
    assert len({box.top() for _, box in strip._chips}) == LINES
    assert strip._counted() == f"3,000 tokens, the first {shown} shown"
    assert strip.accessibleName().startswith("Tokens: 3,000 tokens, Your journey")


def test_padding_is_counted_apart(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(("a", "b", *7 * ("⟨pad⟩",)), padding=7), LIGHT)
    assert strip._counted() == "2 tokens, padded to 9"
    strip.show_tokens(Tokens(WORDS * 500, padding=1), LIGHT)
    assert strip._counted().startswith("2,999 tokens, padded to 3,000, the first ")


def test_a_long_token_is_cut_to_the_width(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(("x" * 500, "y")), LIGHT)
    assert strip._chips[0][1].width() <= strip.width()
    assert len(strip._chips) == 2


def test_the_query_is_filled_and_the_key_is_outlined(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(WORDS), LIGHT)
    assert LIGHT.accent not in colours(strip, 1) | colours(strip, 0)
    strip.show_tokens(Tokens(WORDS, query=1, key=0), LIGHT)
    assert LIGHT.on_accent in colours(strip, 1)
    assert LIGHT.accent in colours(strip, 1)
    assert LIGHT.raised in colours(strip, 0)
    assert LIGHT.accent in colours(strip, 0)
    assert LIGHT.accent not in colours(strip, 2)


def test_a_narrower_strip_has_more_lines(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(WORDS), LIGHT)
    before = strip.sizeHint().height()
    strip.resize(90, 200)
    assert strip.sizeHint().height() > before


def test_no_tokens_take_no_chips(strip: TokenStrip) -> None:
    strip.show_tokens(Tokens(), LIGHT)
    assert strip._chips == []
    assert strip._counted() == ""
    assert not strip.grab().isNull()
