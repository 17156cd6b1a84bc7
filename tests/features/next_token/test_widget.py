"""The bars of the next tokens leave enough room for their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QFontMetricsF

from visualizer.generation.next_tokens_presenter import format_short_share
from visualizer.generation.token_bars_widget import widest_share_width
from visualizer.widgets.fonts import scaled_font

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def test_every_percentage_fits_its_column(qtbot: QtBot) -> None:
    metrics = QFontMetricsF(scaled_font(12))
    room = widest_share_width(metrics)
    near = np.geomspace(1e-9, 0.5, 500)
    for share in (0.0, *near, *(1 - near), 1.0):
        assert metrics.horizontalAdvance(format_short_share(float(share))) <= room
    assert format_short_share(1e-6) == "< 0.1%"
    assert format_short_share(1 - 1e-5) == "> 99.9%"
