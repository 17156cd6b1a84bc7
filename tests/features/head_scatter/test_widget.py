"""Mouse input in the scatter plot of heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtTest import QTest

from tests.support.accessible_text import heard
from visualizer.features.head_scatter.presenter import MEASURES, HeadScatterContents, ScatterAxis
from visualizer.features.head_scatter.widget import HeadScatterPlot
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    import pytest
    from pytestqt.qtbot import QtBot

SIDES = 20, 20
"""Number of layers, and of heads per layer."""


def test_pointing_measures_the_axes_once_for_all_heads(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(0)
    across, up = (ScatterAxis(measure, chance.random(SIDES), 0.5) for measure in MEASURES[:2])
    panel = HeadScatterContents(
        across=across, up=up, layers=tuple(range(SIDES[0])), map_name="viridis"
    )
    plot = HeadScatterPlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    plot.show_panel(panel, LIGHT)
    plot.show()
    qtbot.waitExposed(plot)
    measured = []

    def ends(axis: ScatterAxis) -> tuple[float, float]:
        measured.append(axis)
        return 0.0, 1.0

    monkeypatch.setattr(ScatterAxis, "limits", property(ends))
    last = panel.plotted_heads[-1]
    QTest.mouseMove(plot, plot.head_position(last).toPoint())
    plot.grab()
    assert heard(plot).value == panel.describe_head(last)
    assert len(measured) < 50
