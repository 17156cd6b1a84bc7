"""Icons of disabled actions are faded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon, QImage
from PySide6.QtWidgets import QToolButton

from visualizer.resources import resource_path
from visualizer.widgets.icons import DISABLED_OPACITY, icon
from visualizer.widgets.theme import DARK, LIGHT, Theme, palette

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

NAMES = sorted(file.stem for file in resource_path("icons").glob("*.svg"))


def pixels(image: QImage) -> np.ndarray:
    """Return the pixels of an image as integers [row, column, channel], with an alpha channel."""
    words = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return np.array(words.constBits(), np.int64).reshape(words.height(), words.width(), 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", [16, 20, 40])
def test_a_disabled_icon_is_fainter(application: QApplication, name: str, side: int) -> None:
    made = icon(name, LIGHT.ink)
    usual, faint = (
        pixels(made.pixmap(QSize(side, side), mode).toImage())[..., 3]
        for mode in (QIcon.Mode.Normal, QIcon.Mode.Disabled)
    )
    assert usual.max() > 100
    np.testing.assert_allclose(faint, DISABLED_OPACITY * usual, atol=2)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_disabled_button_has_less_contrast(
    application: QApplication, qtbot: QtBot, theme: Theme
) -> None:
    button = QToolButton()
    qtbot.addWidget(button)
    button.setPalette(palette(theme))
    button.setAutoRaise(True)
    button.setIcon(icon("step-on", theme.ink))
    spread = []
    for can in (True, False):
        button.setEnabled(can)
        spread.append(np.ptp(pixels(button.grab().toImage())[..., :3]))
    assert 0 < spread[1] < 0.6 * spread[0]
