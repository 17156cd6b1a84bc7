"""The next-token bars with mouse and keyboard, and the sampling controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QFontMetricsF
from PySide6.QtTest import QTest

from visualizer.generation.token_bars_widget import widest_percentage_width
from visualizer.generation.token_choice_presenter import (
    format_short_percentage,
    present_next_tokens,
)
from visualizer.generation.token_choice_widget import NextTokenChoicePane
from visualizer.language.sampling import SamplingSettings
from visualizer.widgets.accessibility import VALUE_PROPERTY
from visualizer.widgets.fonts import scaled_font
from visualizer.widgets.setting_controls import FractionSliderControl, IntegerSliderControl
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from tests.conftest import Show

LEFT = Qt.MouseButton.LeftButton
CHANCES = np.array([0.05, 0.4, 0.25, 0.2, 0.1])
LOGITS = np.log(CHANCES)[None]


class PaneWithSampling:
    """A next-token pane, with the sampling settings that its signals change."""

    def __init__(self, show: Show) -> None:
        self.pane, self.picked = NextTokenChoicePane(), list[int]()
        self.pane.tokenChosen.connect(self.picked.append)
        self.pane.samplingChosen.connect(self.show_sampling)
        show(self.pane, (360, 600))
        self.show_sampling(SamplingSettings())

    def show_sampling(self, sampling: SamplingSettings, theme: Theme = LIGHT) -> None:
        self.sampling = sampling
        self.pane.show_bars(present_next_tokens("ab", LOGITS, "abcde", sampling), theme)

    def type_into(self, name: str, text: str) -> None:
        control = self.pane.controls[name]
        assert isinstance(control, IntegerSliderControl | FractionSliderControl)
        control.box.selectAll()
        QTest.keyClicks(control.box, text)

    def row(self, at: int) -> QPoint:
        return self.pane.bars.row_rectangle(at).center().toPoint()


@pytest.fixture
def owner(show: Show) -> PaneWithSampling:
    return PaneWithSampling(show)


def test_a_click_picks_a_token(owner: PaneWithSampling) -> None:
    QTest.mouseClick(owner.pane.bars, LEFT, pos=owner.row(1))
    QTest.mouseClick(owner.pane.bars, LEFT, pos=owner.row(9))
    assert owner.picked == [2]


def test_keys_move_and_pick(owner: PaneWithSampling) -> None:
    owner.pane.bars.setFocus(Qt.FocusReason.TabFocusReason)
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Return):
        QTest.keyClick(owner.pane.bars, key)
    QTest.keyClick(owner.pane.bars, Qt.Key.Key_Escape)
    assert owner.picked == [2]


def test_entered_sampling_settings_are_used(owner: PaneWithSampling) -> None:
    owner.type_into("temperature", "0.5")
    assert owner.sampling == SamplingSettings(0.5)
    owner.type_into("top_k", "2")
    assert owner.sampling == SamplingSettings(0.5, 2)
    owner.type_into("top_p", "0.25")
    assert owner.sampling == SamplingSettings(0.5, 2, 0.25)
    assert "Excluded: 4 tokens" in owner.pane.legend.text()


def test_top_k_of_the_whole_vocabulary_is_no_limit(owner: PaneWithSampling) -> None:
    owner.show_sampling(SamplingSettings(top_k=3))
    owner.type_into("top_k", "5")
    assert owner.sampling.top_k is None


def test_an_invalid_setting_is_explained(owner: PaneWithSampling) -> None:
    owner.type_into("top_p", "0")
    assert owner.pane.problem.isVisible()
    assert owner.pane.problem.text().startswith("Top-p must be greater than 0")
    assert owner.sampling == SamplingSettings()
    owner.type_into("top_p", "0.75")
    assert not owner.pane.problem.isVisible()
    assert owner.sampling == SamplingSettings(top_p=0.75)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_bars_are_filled_up_to_the_sampling_probability(
    owner: PaneWithSampling, theme: Theme
) -> None:
    """The filled part of a bar has the length of the sampling probability on the axis."""
    owner.show_sampling(SamplingSettings(top_k=2), theme)
    bars = owner.pane.bars
    image = bars.grab().toImage()
    left, right, _ = bars.column_edges()
    for row, share in enumerate((0.4 / 0.65, 0.25 / 0.65, 0, 0, 0)):
        middle = round(bars.row_rectangle(row).center().y())
        colours = [image.pixelColor(x, middle) for x in range(round(left) + 1, round(right) - 1)]
        filled = sum(colour == QColor(theme.quiet) for colour in colours)
        assert filled == pytest.approx(share * (right - left), abs=4)


def test_the_bars_have_an_accessible_value(owner: PaneWithSampling) -> None:
    assert owner.pane.bars.property(VALUE_PROPERTY).startswith("After “b”; “b”: 40%; “c”: 25%")


@pytest.mark.usefixtures("application")
def test_every_percentage_fits_its_column() -> None:
    metrics = QFontMetricsF(scaled_font(12))
    room = widest_percentage_width(metrics)
    near = np.geomspace(1e-9, 0.5, 500)
    for share in (0.0, *near, *(1 - near), 1.0):
        assert metrics.horizontalAdvance(format_short_percentage(float(share))) <= room
    assert format_short_percentage(1e-6) == "< 0.1%"
    assert format_short_percentage(1 - 1e-5) == "> 99.9%"
