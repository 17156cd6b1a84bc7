"""A line has the largest size that fits, and wraps only at the smallest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QFont, QFontMetricsF

from tests.support.window_input import words
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.labels import FONT_SIZES_PX, AutoFitLabel

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


@pytest.fixture
def label(qtbot: QtBot) -> AutoFitLabel:
    made = AutoFitLabel("What happens")
    qtbot.addWidget(made)
    made.resize(600, 30)
    made.show()
    return made


def size_of(label: AutoFitLabel) -> int:
    found = label.text().partition("font-size:")[2].partition("px")[0]
    return round(int(found) / text_scale())


@pytest.mark.parametrize("count", [1, 20, 50, 60, 70, 80, 300])
def test_it_is_as_large_as_fits(label: AutoFitLabel, count: int) -> None:
    said = "a<b>b</b> &lt; "[:15] * count
    label.show_html(said)
    plain = words(label)
    widths = {
        size: QFontMetricsF(scaled_font(size, QFont.Weight.DemiBold)).horizontalAdvance(plain)
        for size in FONT_SIZES_PX
    }
    fitting = [size for size in FONT_SIZES_PX if widths[size] <= label.width()]
    assert size_of(label) == (max(fitting) if fitting else min(FONT_SIZES_PX))
    assert label.wordWrap() == (not fitting)


def test_it_follows_the_width_and_never_asks_for_more(label: AutoFitLabel) -> None:
    label.show_html(
        "The query of <b>journey</b> (query 2) meets all 6 keys: it agrees most with one."
    )
    largest = scaled_font(max(FONT_SIZES_PX), QFont.Weight.DemiBold)
    needed = round(QFontMetricsF(largest).horizontalAdvance(words(label)))
    label.resize(needed + 2, 30)
    assert size_of(label) == max(FONT_SIZES_PX)
    label.resize(needed - 20, 30)
    assert size_of(label) < max(FONT_SIZES_PX)
    assert label.minimumSizeHint().width() <= 100
    label.resize(needed + 2, 30)
    assert size_of(label) == max(FONT_SIZES_PX)


def test_one_line_has_one_height_whatever_its_size(label: AutoFitLabel) -> None:
    heights = set()
    for count in (1, 20, 60):
        label.show_html("word " * count)
        if not label.wordWrap():
            heights.add(label.sizeHint().height())
    assert len(heights) == 1


def test_two_lines_take_the_height_of_two_lines(label: AutoFitLabel) -> None:
    label.show_html("word " * 30)
    assert label.wordWrap()
    line = QFontMetricsF(scaled_font(min(FONT_SIZES_PX))).height()
    assert label.sizeHint().height() < 3.5 * line
