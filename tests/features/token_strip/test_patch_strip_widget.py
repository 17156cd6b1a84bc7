"""The strip of an image: selection of patches by mouse and keyboard, and their weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from tests.support.window_input import LEFT
from visualizer.attention.captured_attention import ImagePatches
from visualizer.features.token_strip.patch_strip_widget import (
    MAX_OPACITY,
    MAX_SIDE_PX,
    MIN_NUMBERED_OPACITY,
    MIN_OPACITY,
    PatchStrip,
)
from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
from visualizer.heatmap import colour_mapping
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

ROWS, COLUMNS, SIDE = 4, 5, 8
PIXELS = np.random.default_rng(0).integers(0, 256, (ROWS, COLUMNS, 3), np.uint8)
"""The uniform colour of each patch."""
PATCHES = ImagePatches(
    1, ROWS, COLUMNS, ROWS * SIDE, COLUMNS * SIDE,
    PIXELS.repeat(SIDE, 0).repeat(SIDE, 1).tobytes(),
)  # fmt: skip
NAMES = (
    "class",
    *(f"row {at + 1}, column {to + 1}" for at in range(ROWS) for to in range(COLUMNS)),
)
COUNT = len(NAMES)


def panel(weights: TokenWeights | None = None) -> TokenPanel:
    return TokenPanel(NAMES, weights=weights, patches=PATCHES)


def weights_of(values: np.ndarray, low: float = 0.0) -> TokenWeights:
    forbidden = np.zeros(COUNT, dtype=bool)
    return TokenWeights(values, forbidden, "viridis", low, 1.0, "<b>x</b> reads")


@pytest.fixture
def strip(qtbot: QtBot) -> PatchStrip:
    made = PatchStrip()
    qtbot.addWidget(made)
    made.resize(242, 240)
    made.show()
    made.activateWindow()
    qtbot.waitExposed(made)
    made.show_tokens(panel(), LIGHT)
    return made


def middle(strip: PatchStrip, token: int) -> QPoint:
    return strip.chip_rect(token).center().toPoint()


Channels = tuple[int, int, int]


def channels_of(colour: QColor) -> Channels:
    return colour.red(), colour.green(), colour.blue()


def colour_in(strip: PatchStrip, token: int) -> Channels:
    """Return the colour of a patch near its corner, where there is no number."""
    box = strip.chip_rect(token)
    image = strip.viewport().grab().toImage()
    at = box.topLeft() + (box.center() - box.topLeft()) * 0.3
    return channels_of(image.pixelColor((at * image.devicePixelRatio()).toPoint()))


def test_patches_lie_in_the_image_below_the_other_tokens(strip: PatchStrip) -> None:
    boxes = [strip.chip_rect(token) for token in range(COUNT)]
    assert boxes[0].bottom() < boxes[1].top()
    assert boxes[1].left() == 1
    assert boxes[COLUMNS].right() == pytest.approx(241)
    assert boxes[1 + COLUMNS].top() == pytest.approx(boxes[1].bottom())
    assert boxes[1].width() == pytest.approx(boxes[1].height())
    assert strip.sizeHint().height() >= boxes[-1].bottom()
    strip.resize(2000, 1000)
    assert strip.chip_rect(COLUMNS).right() - strip.chip_rect(1).left() == pytest.approx(
        MAX_SIDE_PX
    )


def test_without_weights_the_image_is_seen_in_its_colours(strip: PatchStrip) -> None:
    for token in range(1, COUNT):
        seen, expected = colour_in(strip, token), PIXELS.reshape(-1, 3)[token - 1]
        assert seen == pytest.approx(tuple(expected), abs=2)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [242, 150], ids=["with numbers", "without"])
def test_weights_lie_over_the_grey_image(strip: PatchStrip, theme: Theme, width: int) -> None:
    strip.resize(width, 240)
    values = np.linspace(0, 1, COUNT)
    strip.show_tokens(panel(weights_of(values)), theme)
    least = MIN_NUMBERED_OPACITY if width == 242 else MIN_OPACITY
    table = colour_mapping.colour_table("viridis", theme)
    for token in range(1, COUNT):
        grey = QColor(*map(int, PIXELS.reshape(-1, 3)[token - 1]))
        grey_level = (grey.red() * 11 + grey.green() * 16 + grey.blue() * 5) / 32  # as qGray
        share = least + (MAX_OPACITY - least) * values[token]
        entry = round(values[token] * colour_mapping.MAX_COLOUR_INDEX)
        over = channels_of(QColor(int(table[entry])))
        expected = tuple(share * one + (1 - share) * grey_level for one in over)
        assert colour_in(strip, token) == pytest.approx(expected, abs=4)


def test_signed_numbers_cover_the_image_by_their_size(strip: PatchStrip) -> None:
    values = np.zeros(COUNT)
    values[1], values[2] = -1.0, 1.0
    strip.show_tokens(panel(weights_of(values, low=-1.0)), LIGHT)
    table = colour_mapping.colour_table("viridis", LIGHT)
    ends = (0, colour_mapping.MAX_COLOUR_INDEX)
    for token, entry in zip((1, 2), ends, strict=True):
        over = channels_of(QColor(int(table[entry])))
        seen = colour_in(strip, token)
        assert max(abs(one - other) for one, other in zip(seen, over, strict=True)) <= 26


def test_a_click_chooses_a_patch_and_a_second_one_lets_go(strip: PatchStrip) -> None:
    met: list[frozenset[int]] = []
    strip.tokensChosen.connect(met.append)
    QTest.mouseClick(strip.viewport(), LEFT, pos=middle(strip, 9))
    strip.show_tokens(replace(panel(), chosen=met[-1], subjects=met[-1]), LIGHT)
    QTest.mouseClick(strip.viewport(), LEFT, pos=middle(strip, 9))
    assert met == [{9}, frozenset()]


def test_pointing_tells_the_patch_and_leaving_none(strip: PatchStrip, qtbot: QtBot) -> None:
    met: list[int | None] = []
    strip.hovered.connect(met.append)
    for token in (4, 5, 0):
        QTest.mouseMove(strip.viewport(), middle(strip, token))
        qtbot.waitUntil(partial(is_last, met, token))
    QTest.mouseMove(strip.viewport(), QPoint(1, strip.height() - 1))
    qtbot.waitUntil(lambda: met[-1:] == [None])
    assert met == [4, 5, 0, None]


def is_last(met: list[int | None], token: int) -> bool:
    return met[-1:] == [token]


def test_keys_go_from_patch_to_patch(strip: PatchStrip) -> None:
    met: list[frozenset[int]] = []
    strip.tokensChosen.connect(met.append)
    strip.setFocus()
    down, up = Qt.Key.Key_Down, Qt.Key.Key_Up
    for key in (down, down, Qt.Key.Key_Right, Qt.Key.Key_Space, up, up, up, Qt.Key.Key_Space):
        QTest.keyClick(strip, key)
    assert met == [{2 + COLUMNS}, {0}]
    for key in (Qt.Key.Key_End, down, Qt.Key.Key_Space):
        QTest.keyClick(strip, key)
    assert met[-1] == {COUNT - 1}


def test_tips_name_the_patch_and_its_weight(strip: PatchStrip) -> None:
    strip.show_tokens(panel(weights_of(np.linspace(0, 1, COUNT))), LIGHT)
    assert strip.tooltip_text(COUNT - 1) == f"row {ROWS}, column {COLUMNS}, token {COUNT}: 1.0000"
