"""The text size that fits a screen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QSize

from visualizer.widgets.fonts import text_scale_for_screen


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
