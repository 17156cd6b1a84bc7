"""The labels of the loss plot are near their lines and inside the plot, and do not overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtCore import QRectF
from PySide6.QtGui import QAction

from tests.lab.loss_plot.test_widget import colours, losses
from visualizer.lab.loss_plot.chart_paint import (
    place_gap_labels,
    place_reference_labels,
    spread_boxes,
)
from visualizer.lab.loss_plot.model import (
    AxisScale,
    LossPlot,
    PlotOptions,
    PlottedRunLosses,
    ReferenceLoss,
)
from visualizer.lab.loss_plot.presenter import present_plot
from visualizer.lab.loss_plot.widget import LossPlotPane
from visualizer.lab.training.loss_history import LossHistory
from visualizer.widgets.fonts import font_metrics
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

SIZES = st.tuples(st.integers(160, 850), st.integers(1, 450))
TO_BEAT = st.lists(st.floats(0.01, 40), max_size=4)


def broken(at: int, count: int = 200) -> LossHistory:
    """Return losses that are not finite from the given step on."""
    steps = np.arange(1, count + 1)
    values = np.where(steps < at, 3 + np.exp((steps - at) / 5.0 + 6), np.nan)
    nothing = np.empty(0)
    return LossHistory.of(steps, values, np.full(count, 1e-3), nothing.astype(int), nothing)


def plotted(run: LossHistory, to_beat: list[float], scale: AxisScale) -> LossPlot:
    references = [ReferenceLoss(f"guess {at}", loss) for at, loss in enumerate(to_beat)]
    return present_plot([PlottedRunLosses("run", run)], PlotOptions(0.9, scale), references)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(SIZES, TO_BEAT, st.sampled_from(AxisScale), st.none() | st.integers(2, 200))
def test_labels_are_inside_and_apart_and_in_the_order_of_their_lines(
    application: QApplication,
    size: tuple[int, int],
    to_beat: list[float],
    scale: AxisScale,
    stop: int | None,
) -> None:
    plot = plotted(losses() if stop is None else broken(stop), to_beat, scale)
    place = QRectF(40, 10, *size)
    taken = place_gap_labels(place, plot)
    words = place_reference_labels(place, plot, taken)
    plot_area = place.adjusted(-0.01, -0.01, 0.01, 0.01)
    for each in (*words, *taken):
        assert plot_area.contains(each.box)
    for above, below in pairwise(words):
        assert above.line <= below.line
        assert above.box.bottom() <= below.box.top() + 0.01
    for each in words:
        overlaps = [each.box.intersected(other.box) for other in taken]
        assert all(over.height() < 0.01 or over.width() < 0.01 for over in overlaps)
    if not taken:
        room = int(place.height() / font_metrics(12).height())
        assert len(words) == min(len(to_beat), max(0, room))


def test_labels_with_enough_space_are_at_their_lines(application: QApplication) -> None:
    plot = plotted(losses(), [3.3, 2.5], AxisScale.LINEAR)
    plot_area = QRectF(40, 30, 640, 270)
    words = place_reference_labels(plot_area, plot)
    assert [each.text for each in words] == ["guess 0 3.30", "guess 1 2.50"]
    for each, loss in zip(words, (3.3, 2.5), strict=True):
        y = plot_area.bottom() - float(plot.y.values_to_shares(loss)) * plot_area.height()
        assert each.box.center().y() == pytest.approx(y)


def test_losses_outside_the_plot_are_reported_once_below_it(
    application: QApplication, qtbot: QtBot
) -> None:
    pane = LossPlotPane({name: QAction(name, application) for name in ("losses", "steps")})
    qtbot.addWidget(pane)
    pane.resize(640, 300)
    pane.show()
    qtbot.waitExposed(pane)
    plot = replace(plotted(broken(190), [3.3], AxisScale.LINEAR), loss_gaps=())
    (notice,) = plot.notices
    pane.show_plot(plot, PlotOptions(), LIGHT)
    assert pane.notices.text() == notice
    assert LIGHT.warning not in colours(pane.view.grab().toImage())


PLACES = st.lists(st.floats(-100, 300), max_size=6).map(sorted)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[list[float], float, float, float]:
    """Generate preferred positions, a size, and bounds between which all boxes fit."""
    wanted, size, low = draw(PLACES), draw(st.floats(1, 30)), draw(st.floats(-50, 50))
    return wanted, size, low, low + len(wanted) * size + draw(st.floats(0, 200))


@given(tasks())
def test_no_boxes_overlap_and_all_are_inside(task: tuple[list[float], float, float, float]) -> None:
    wanted, size, low, high = task
    places = spread_boxes(wanted, size, low, high)
    assert len(places) == len(wanted)
    for above, below in pairwise(places):
        assert below >= above + size - 1e-9
    assert all(low - 1e-9 <= place <= high - size + 1e-9 for place in places)


@given(tasks(), st.data())
def test_no_other_placement_is_closer(
    task: tuple[list[float], float, float, float], data: st.DataObject
) -> None:
    wanted, size, low, high = task
    free = max(0.0, high - low - len(wanted) * size)
    gaps = sorted(data.draw(st.floats(0, free)) for _ in wanted)
    others = [low + gap + at * size for at, gap in enumerate(gaps)]

    def far(places: list[float]) -> float:
        return sum((place - want) ** 2 for place, want in zip(places, wanted, strict=True))

    assert far(spread_boxes(wanted, size, low, high)) <= far(others) + 1e-6


def test_boxes_with_enough_space_stay() -> None:
    assert spread_boxes([1, 12, 50], 10, 0, 100) == [1, 12, 50]
    assert spread_boxes([40, 40], 10, 0, 100) == [35, 45]
    assert spread_boxes([95, 96, 97], 10, 0, 100) == pytest.approx([70, 80, 90])
    assert spread_boxes([], 10, 0, 5) == []
