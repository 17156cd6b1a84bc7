"""The text size that fits a screen, and the shipped font."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF, QRawFont

from visualizer.widgets.fonts import BUNDLED_FAMILY, scaled_font, text_scale_for_screen

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

WEIGHTS = (QFont.Weight.Normal, QFont.Weight.DemiBold, QFont.Weight.Bold)


@pytest.mark.parametrize(
    ("width", "height", "scale"),
    [
        (800, 600, 1),
        (1280, 800, 1),
        (1920, 1080, 1),
        (3440, 1080, 1),
        (2560, 1440, 4 / 3),
        (3840, 2160, 1.5),
        (7680, 4320, 1.5),
    ],
)
def test_text_fits_the_screen(width: int, height: int, scale: float) -> None:
    assert text_scale_for_screen(QSize(width, height)) == pytest.approx(scale)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_text_has_the_shipped_font(weight: QFont.Weight, qapp: QApplication) -> None:
    used = QFontInfo(scaled_font(13, weight))
    assert (used.family(), used.weight()) == (BUNDLED_FAMILY, weight)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_digits_have_the_same_width(weight: QFont.Weight, qapp: QApplication) -> None:
    metrics = QFontMetricsF(scaled_font(13, weight))
    widths = [metrics.horizontalAdvance(digit) for digit in "0123456789"]
    assert widths == pytest.approx([widths[0]] * 10, abs=0.05)


def test_the_shipped_font_has_the_mathematical_signs(qapp: QApplication) -> None:
    font = QRawFont.fromFont(scaled_font(13))
    assert all(font.supportsCharacter(ord(sign)) for sign in "−×÷·√Σσ∞≤→↓…")
