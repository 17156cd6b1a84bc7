"""Use of the loss plot with the mouse and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QBuffer, QEvent, QPoint, QPointF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QImage,
    QMouseEvent,
    QPainter,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from tests.support.accessible_text import heard
from tests.support.window_input import LEFT
from visualizer.lab.loss_plot.model import (
    EMPTY_MESSAGE,
    AxisScale,
    LossPlot,
    PlotOptions,
    PlottedRunLosses,
    ReferenceLoss,
)
from visualizer.lab.loss_plot.presenter import present_plot
from visualizer.lab.loss_plot.widget import KEYBOARD_HELP, LossPlotView
from visualizer.lab.training.loss_history import LossHistory
from visualizer.widgets import accessibility
from visualizer.widgets.theme import DARK, LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

SIZE = QSize(700, 340)
STOPS = tuple(range(0, 1001, 100))
REFERENCES = (ReferenceLoss("unigram baseline", 3.3), ReferenceLoss("bigram counts", 2.5))


def losses(count: int = 1000) -> LossHistory:
    steps = np.arange(1, count + 1)
    measured = np.arange(0, count + 1, max(1, count // 10))
    return LossHistory.of(
        steps,
        2 + 2 * np.exp(-steps / 200) + 0.05 * np.sin(steps),
        np.full(count, 1e-3),
        measured,
        2.1 + 2 * np.exp(-measured / 200),
    )


def plot_of(
    *runs: LossHistory,
    shown_step: int | None = None,
    stops: tuple[int, ...] = STOPS,
    options: PlotOptions | None = None,
) -> LossPlot:
    curves = [PlottedRunLosses(f"run {at}", one, at) for at, one in enumerate(runs)]
    return present_plot(curves, options or PlotOptions(), REFERENCES, shown_step, stops)


class PlotUser:
    """Operates the plot, and shows the selected step in the same way as the lab."""

    def __init__(self, qtbot: QtBot, plot: LossPlot, theme: Theme = LIGHT) -> None:
        self.view = LossPlotView()
        qtbot.addWidget(self.view)
        self.view.resize(SIZE)
        self.view.show_plot(plot, theme)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.view.activateWindow()
        self.view.setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.waitUntil(self.view.hasFocus)
        self.selected: list[int | None] = []
        self.view.stepSelected.connect(self.select)
        self.view.currentModelSelected.connect(self.select_current)

    def select(self, step: int | None) -> None:
        self.selected.append(step)
        self.view.show_plot(plot_of(losses(), shown_step=step), LIGHT)

    def select_current(self) -> None:
        self.select(None)

    def move(self, step: float, is_held: bool = False) -> None:
        self.move_to(self.view.point_at_step(step), is_held)

    def move_to(self, at: QPointF, is_held: bool = False) -> None:
        none = Qt.MouseButton.NoButton
        event = QMouseEvent(
            QEvent.Type.MouseMove,
            at,
            QPointF(self.view.mapToGlobal(at)),
            none,
            LEFT if is_held else none,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(self.view, event)

    def press(self, step: float) -> None:
        QTest.mousePress(self.view, LEFT, pos=self.view.point_at_step(step).toPoint())

    def key(self, key: Qt.Key) -> int | None:
        QTest.keyClick(self.view, key)
        return self.selected[-1] if self.selected else None

    def picture(self) -> QImage:
        return self.view.grab().toImage()


@pytest.fixture
def user(application: QApplication, qtbot: QtBot) -> PlotUser:
    accessibility.install_accessible_interface()
    return PlotUser(qtbot, plot_of(losses()))


def colours(image: QImage) -> set[str]:
    # The image must exist while its pixels are read.
    words = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.unique(np.frombuffer(words.constBits(), np.uint32))
    return {f"#{colour & 0xFFFFFF:06X}" for colour in pixels.tolist()}


# -------------------------------------------------------------------------- mouse and keyboard


def test_a_click_selects_the_nearest_snapshot(user: PlotUser) -> None:
    user.press(340)
    assert user.selected == [300]


def test_dragging_selects_each_step_once(user: PlotUser) -> None:
    user.press(100)
    for step in (110, 140, 160, 390, 410):
        user.move(step, is_held=True)
    QTest.mouseRelease(user.view, LEFT)
    user.move(900)
    assert user.selected == [100, 200, 400]


def test_dragging_beyond_the_ends_stays_at_them(user: PlotUser) -> None:
    user.press(500)
    user.move(5000, is_held=True)
    user.move(-5000, is_held=True)
    assert user.selected == [500, 1000, 0]


def test_hovering_shows_values_and_leaving_hides_them(user: PlotUser) -> None:
    before = user.picture()
    user.move(500)
    pointed = user.picture()
    assert pointed != before
    assert LIGHT.raised in colours(pointed) - colours(before)
    user.move(700)
    assert user.picture() != pointed
    QApplication.sendEvent(user.view, QEvent(QEvent.Type.Leave))
    assert user.picture() == before
    assert user.selected == []


def test_keys_move_through_the_snapshots(user: PlotUser) -> None:
    assert user.key(Qt.Key.Key_Home) == 0
    assert user.key(Qt.Key.Key_Right) == 100
    assert user.key(Qt.Key.Key_PageUp) == 1000
    assert user.key(Qt.Key.Key_Left) == 900
    assert user.key(Qt.Key.Key_PageDown) == 0
    count = len(user.selected)
    user.key(Qt.Key.Key_Left)
    assert len(user.selected) == count
    assert user.key(Qt.Key.Key_End) == 1000
    assert user.key(Qt.Key.Key_Escape) is None
    assert user.key(Qt.Key.Key_Left) == 900


def test_without_snapshots_any_step_can_be_selected(
    application: QApplication, qtbot: QtBot
) -> None:
    user = PlotUser(qtbot, plot_of(losses(), stops=()))
    user.press(337)
    assert user.selected[-1] == pytest.approx(337, abs=3)
    other = PlotUser(qtbot, plot_of(losses(), stops=(), shown_step=500))
    assert other.key(Qt.Key.Key_Right) == 510


def test_command_shortcuts_are_left_to_the_window(user: PlotUser) -> None:
    QTest.keyClick(user.view, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert user.selected == []


def test_an_empty_plot_shows_a_message_and_ignores_input(
    application: QApplication, qtbot: QtBot
) -> None:
    user = PlotUser(qtbot, LossPlot())
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Home, Qt.Key.Key_Escape):
        user.key(key)
    QTest.mouseClick(user.view, LEFT, pos=QPoint(300, 150))
    user.move_to(QPointF(300, 150))
    assert user.selected == []
    assert heard(user.view).value == EMPTY_MESSAGE
    assert LIGHT.quiet in colours(user.picture())


# ------------------------------------------------------------------------------ screen readers


def test_the_plot_has_an_accessible_name(user: PlotUser) -> None:
    told = heard(user.view)
    assert (told.role, told.name) == (QAccessible.Role.Chart, "Losses")
    assert told.description == KEYBOARD_HELP
    assert told.value == plot_of(losses()).description


def test_keyboard_moves_are_announced_and_pointer_moves_are_not(
    user: PlotUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "visualizer.lab.loss_plot.widget.announce",
        lambda widget, words, politeness: said.append(words),
    )
    user.key(Qt.Key.Key_Home)
    user.press(500)
    assert [each.partition(":")[0] for each in said] == ["Step 0"]


# ------------------------------------------------------------------------------------ painting


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_lines_have_their_colours_on_the_background_of_the_theme(
    application: QApplication, qtbot: QtBot, theme: Theme
) -> None:
    user = PlotUser(qtbot, plot_of(losses(), losses(500), shown_step=300), theme)
    seen = colours(user.picture())
    assert {theme.paper, theme.ink, theme.quiet, theme.accent} <= seen
    assert {head_colour(0, theme), head_colour(1, theme)} <= seen


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 100, 100_000])
@pytest.mark.parametrize("scale", AxisScale)
@pytest.mark.parametrize("size", [(1, 1), (60, 40), (640, 300), (1200, 400)])
def test_any_number_of_points_is_drawn_in_any_size(
    application: QApplication, qtbot: QtBot, count: int, scale: AxisScale, size: tuple[int, int]
) -> None:
    plot = plot_of(losses(count), options=PlotOptions(losses=scale, steps=scale))
    user = PlotUser(qtbot, plot)
    user.view.setFixedSize(*size)
    assert head_colour(0, LIGHT) in colours(user.picture()) or size[0] < 640
    assert user.view.chart
    points = [len(line.xData) for line in user.view.chart.line_items]
    assert max(points) <= max(2 * size[0] + 8, 8)


def test_lines_are_at_their_losses(application: QApplication, qtbot: QtBot) -> None:
    run = losses(100)
    plot = plot_of(run, options=PlotOptions(smoothing=0, losses=AxisScale.LOG, steps=AxisScale.LOG))
    chart = PlotUser(qtbot, plot).view.chart
    assert chart
    for drawn, line in zip(chart.line_items, plot.lines, strict=True):
        np.testing.assert_allclose(plot.x.shares_to_values(drawn.xData), np.maximum(line.steps, 1))
        np.testing.assert_allclose(plot.y.shares_to_values(drawn.yData), line.values)


def divergent(scale: AxisScale) -> LossPlot:
    held = losses(100)
    values = held.training.copy()
    values[60:] = np.append(np.logspace(0, 300, 30), [np.nan, np.inf] * 5)
    run = LossHistory.of(held.steps, values, held.rates, [0, 100], [4.0, np.nan])
    return plot_of(run, options=PlotOptions(losses=scale))


@pytest.mark.parametrize("scale", AxisScale)
def test_divergence_is_marked(application: QApplication, qtbot: QtBot, scale: AxisScale) -> None:
    user = PlotUser(qtbot, divergent(scale))
    assert {LIGHT.warning, head_colour(0, LIGHT)} <= colours(user.picture())
    assert "NaN or infinite at step 91" in drawn_text(user)


def test_losses_that_are_not_finite_leave_a_gap(application: QApplication, qtbot: QtBot) -> None:
    chart = PlotUser(qtbot, divergent(AxisScale.LINEAR)).view.chart
    assert chart
    each = chart.line_items[0]
    assert np.isnan(each.yData[-10:]).all()
    assert np.isfinite(each.yData[:-10]).all()
    assert np.abs(each.yData[:-10]).max() <= 2


def test_a_spike_is_visible_among_any_number_of_steps(
    application: QApplication, qtbot: QtBot
) -> None:
    values = np.full(200_000, 3.0)
    values[140_000] = 6.0
    steps = np.arange(1, 200_001)
    plot = plot_of(LossHistory.of(steps, values, steps), options=PlotOptions(smoothing=0), stops=())
    user = PlotUser(qtbot, plot)
    image = user.picture()
    x = round(user.view.point_at_step(140_000).x())
    colour = QColor(head_colour(0, LIGHT))
    height = [
        y
        for y in range(image.height())
        for beside in range(x - 3, x + 4)
        if image.pixelColor(beside, y).blue() - image.pixelColor(beside, y).red()
        > (colour.blue() - colour.red()) / 3
    ]
    assert max(height) - min(height) > SIZE.height() / 3


def drawn_text(user: PlotUser) -> str:
    """Return a description of what is drawn: shapes and words."""
    assert user.view.chart
    buffer = QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(SIZE)
    painter = QPainter(generator)
    user.view.chart.view.scene().render(painter)
    painter.end()
    return bytes(buffer.data().data()).decode()


def test_axes_lines_and_reference_losses_are_labelled(user: PlotUser) -> None:
    text = drawn_text(user)
    assert "bigram counts 2.50" in text
    assert "unigram baseline 3.30" in text
    assert "1,000" in text
    assert "<polyline" in text or "<path" in text


def test_the_legend_names_lines_and_axes(application: QApplication, qtbot: QtBot) -> None:
    words = legend_text(PlotUser(qtbot, plot_of(losses(), losses(500))))
    for each in ("run 0", "run 1", "each step", "validation", "loss (nats per token) by step"):
        assert each in words


def legend_text(user: PlotUser) -> str:
    (legend,) = user.view.findChildren(QLabel)
    document = QTextDocument()
    document.setHtml(legend.text())
    return document.toPlainText().replace("\N{NO-BREAK SPACE}", " ")


def test_names_of_runs_are_not_interpreted_as_markup(
    application: QApplication, qtbot: QtBot
) -> None:
    curves = [
        PlottedRunLosses("<b>x</b> & <img src=y>", losses()),
        PlottedRunLosses("other", losses(500), 1),
    ]
    user = PlotUser(qtbot, present_plot(curves, PlotOptions()))
    assert "<b>x</b> & <img src=y>" in legend_text(user)
    user.move(500)
    pointed = user.view.chart and user.view.chart.readout_item
    assert pointed
    assert "<b>x</b> & <img src=y>, training" in pointed.toPlainText()


def test_lines_are_redrawn_only_for_new_losses(user: PlotUser) -> None:
    chart = user.view.chart
    assert chart
    drawn = list(chart.line_items)
    for step in (100, 200, 300):
        user.move(step)
        user.picture()
    assert chart.line_items == drawn
    user.view.show_plot(plot_of(losses(500)), LIGHT)
    assert not set(chart.line_items) & set(drawn)
    again = list(chart.line_items)
    user.view.resize(500, 300)
    assert not set(chart.line_items) & set(again)
    in_scene = [item for item in chart.view.scene().items() if item in (*drawn, *again)]
    assert in_scene == []


def test_a_hidden_plot_is_drawn_when_it_is_shown(user: PlotUser) -> None:
    chart = user.view.chart
    assert chart
    drawn = list(chart.line_items)
    user.view.hide()
    user.view.show_plot(plot_of(losses(500)), LIGHT)
    assert chart.line_items == drawn
    user.view.show()
    assert not set(chart.line_items) & set(drawn)


def test_no_menu_and_no_wheel_change_the_plot(user: PlotUser) -> None:
    chart = user.view.chart
    assert chart
    before = chart.box.viewRange()
    place = user.view.point_at_step(500)
    none = Qt.KeyboardModifier.NoModifier
    QTest.mouseClick(user.view, Qt.MouseButton.RightButton, none, place.toPoint())
    assert QApplication.activePopupWidget() is None
    target = user.view.childAt(place.toPoint()) or user.view
    assert target is user.view
    wheel = QWheelEvent(
        place, QPointF(user.view.mapToGlobal(place)), QPoint(), QPoint(0, 120),
        Qt.MouseButton.NoButton, none, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(target, wheel)
    assert chart.box.viewRange() == before
