"""The loss plot and its controls; hovering shows values, and dragging selects a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.heatmap.cell_scroll_widget import KEYBOARD_FOCUS_REASONS
from visualizer.lab.loss_plot.chart_paint import LossChart, legend_html
from visualizer.lab.loss_plot.model import LossPlot, PlotOptions
from visualizer.lab.loss_plot.presenter import nearest_step_index, read_values_at_step
from visualizer.lab.loss_plot.smoothing import unique_sorted
from visualizer.lab.training.bar_widget import create_text_button
from visualizer.widgets.accessibility import Politeness, announce, set_accessible_value
from visualizer.widgets.fonts import scaled_font
from visualizer.widgets.input_filters import has_command_modifier
from visualizer.widgets.labels import HtmlLabel, PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import WheelIgnoringSlider
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import (
        QAction,
        QFocusEvent,
        QKeyEvent,
        QMouseEvent,
        QPaintEvent,
        QResizeEvent,
        QShowEvent,
    )

DEFAULT_SIZE, MIN_SIZE = QSize(640, 300), QSize(220, 110)
KEYBOARD_HELP = (
    "Press Left and Right to move through training, Page Up and Page Down for larger steps, Home "
    "and End for the first and last step, and Esc to return to the current step."
)
KEYBOARD_STEPS, STEPS_PER_PAGE = 100, 10
"""Number of arrow-key steps along an axis without snapshots, and per press of a page key."""

STEP_KEYS = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_PageDown: -STEPS_PER_PAGE,
    Qt.Key.Key_PageUp: STEPS_PER_PAGE,
}


class LossPlotView(QWidget):
    """A view of a `LossPlot`; clicking and dragging select a step.

    If there are snapshots, the nearest snapshot is selected.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Chart
    stepSelected = Signal(int)
    currentModelSelected = Signal()
    """Emitted when the current model is selected instead of a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setAccessibleName("Losses")
        self.setAccessibleDescription(KEYBOARD_HELP)
        self.plot, self._theme = LossPlot(), LIGHT
        self.chart: LossChart | None = None
        self._legend = HtmlLabel()
        self._legend.setWordWrap(True)
        self._legend.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._legend.setContentsMargins(10, 4, 10, 0)
        # The margins are needed for the focus frame.
        self._column = column_layout(self, (2, 2, 2, 2), spacing=0)
        self._column.addWidget(self._legend)
        self._hovered_point: QPointF | None = None
        self._has_focus_frame = self._is_dragging = self._is_moved_by_keys = False
        set_accessible_value(self, self.plot.description)

    def sizeHint(self) -> QSize:
        return DEFAULT_SIZE

    def minimumSizeHint(self) -> QSize:
        return MIN_SIZE

    # ------------------------------------------------------------------ content

    def show_plot(self, plot: LossPlot, theme: Theme) -> None:
        if plot is self.plot and theme is self._theme:
            return
        is_elsewhere = plot.shown_step != self.plot.shown_step
        self.plot, self._theme = plot, theme
        set_accessible_value(self, plot.description)
        if is_elsewhere and self._is_moved_by_keys and self.hasFocus():
            step = plot.last_step if plot.shown_step is None else plot.shown_step
            announce(self, read_values_at_step(plot, step).sentence, Politeness.Assertive)
        self._is_moved_by_keys = self._is_moved_by_keys and not is_elsewhere
        self.setCursor(Qt.CursorShape.ArrowCursor if plot.message else Qt.CursorShape.CrossCursor)
        self._redraw()

    def point_at_step(self, step: float) -> QPointF:
        """Return the point at a step and at half the height of the drawn plot."""
        assert self.chart
        return QPointF(self.chart.view.pos()) + self.chart.point_at_step(step)

    # ------------------------------------------------------------------ drawing

    def _redraw(self) -> None:
        """Draw the plot; a hidden plot is drawn when it is shown."""
        if not self.isVisible():
            return
        plot, theme = self.plot, self._theme
        alignment = Qt.AlignmentFlag.AlignCenter if plot.message else Qt.AlignmentFlag.AlignLeft
        self._legend.setAlignment(alignment)
        self._legend.setFont(scaled_font(12))
        self._legend.setText(legend_html(plot, theme))
        if not plot.message and self.chart is None:
            self.chart = LossChart()
            self._column.addWidget(self.chart.view, 1)
        if self.chart:
            self.chart.view.setVisible(not plot.message)
            self._column.activate()
            self.chart.draw_plot(plot, theme)
            self._show_hovered_step()
        self.update()

    def _show_hovered_step(self) -> None:
        if self.chart and not self.plot.message:
            self.chart.show_readout(
                self._selectable_step_at(self._hovered_point) if self._hovered_point else None
            )

    def _selectable_step_at(self, place: QPointF) -> int:
        """Return the step at a position, or the nearest snapshot if there are any."""
        assert self.chart
        step = self.chart.step_at(place.x() - self.chart.view.x())
        stops = self.plot.stops
        return int(stops[nearest_step_index(stops, step)]) if len(stops) else round(step)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.paper))
        if self._has_focus_frame:
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._redraw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._redraw()

    def showEvent(self, event: QShowEvent) -> None:
        self._redraw()

    # ------------------------------------------------------------------ mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not self.plot.message:
            self._is_dragging = True
            self._update_pointer(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._update_pointer(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._is_dragging = False

    def leaveEvent(self, event: QEvent) -> None:
        self._hovered_point = None
        self._show_hovered_step()

    def _update_pointer(self, at: QPointF) -> None:
        chart, is_near = self.chart, False
        if chart:
            is_near = chart.plot_area.adjusted(-8, 0, 8, 8).contains(at - chart.view.pos())
        self._hovered_point = at if is_near or self._is_dragging else None
        if self._is_dragging:
            self._emit_selected_step(self._selectable_step_at(at))
        self._show_hovered_step()

    def _emit_selected_step(self, step: int) -> None:
        if step != self.plot.shown_step:
            self.stepSelected.emit(step)

    # ------------------------------------------------------------------ keys

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if has_command_modifier(event) or self.plot.message:
            event.ignore()
        elif key == Qt.Key.Key_Escape and self.plot.shown_step is not None:
            self._is_moved_by_keys = True
            self.currentModelSelected.emit()
        elif key in {*STEP_KEYS, Qt.Key.Key_Home, Qt.Key.Key_End}:
            self._is_moved_by_keys = True
            self._emit_selected_step(self._step_for_key(key))
        else:
            event.ignore()

    def _step_for_key(self, key: Qt.Key) -> int:
        stops = self.plot.stops if len(self.plot.stops) else self._evenly_spaced_steps()
        if key not in STEP_KEYS:
            return int(stops[0 if key == Qt.Key.Key_Home else -1])
        shown_step = self.plot.last_step if self.plot.shown_step is None else self.plot.shown_step
        before = int(np.searchsorted(stops, shown_step))
        after = int(np.searchsorted(stops, shown_step, "right"))
        at = after - 1 + STEP_KEYS[key] if STEP_KEYS[key] > 0 else before + STEP_KEYS[key]
        return int(stops[min(max(at, 0), len(stops) - 1)])

    def _evenly_spaced_steps(self) -> np.ndarray:
        axis = self.plot.x
        last = min(axis.high, self.plot.last_step)
        return unique_sorted(
            np.linspace(axis.low, last, KEYBOARD_STEPS + 1).round().astype(np.int64)
        )

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._show_focus_frame(event.reason() in KEYBOARD_FOCUS_REASONS)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._show_focus_frame(False)

    def _show_focus_frame(self, is_marked: bool) -> None:
        self._has_focus_frame = is_marked
        self.update()


SMOOTHING_STRENGTHS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
"""Smoothing strengths; each averages over about twice as many steps as the previous one."""
AXIS_LABELS = {"losses": "Log loss", "steps": "Log steps"}


class LossPlotPane(QWidget):
    """The plot, with its controls above it."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    optionsChosen = Signal(object)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setAccessibleName("Loss plot")
        self._options = PlotOptions()
        self.view, self.notices, self.smoothing = (
            LossPlotView(),
            PlainTextLabel(),
            WheelIgnoringSlider(),
        )
        self.notices.setProperty("role", "quiet")
        self.notices.setWordWrap(True)
        self.notices.setContentsMargins(16, 0, 16, 0)
        self.smoothing.setRange(0, len(SMOOTHING_STRENGTHS) - 1)
        self.smoothing.setPageStep(2)
        self.smoothing.setMaximumWidth(120)
        self.smoothing.setAccessibleName("Smoothing of the training loss")
        self.smoothing.valueChanged.connect(self._set_smoothing)
        row = row_layout(margins=(16, 4, 16, 0), spacing=8)
        label = PlainTextLabel("Smoothing")
        label.setProperty("role", "quiet")
        label.setBuddy(self.smoothing)
        row.addWidget(label)
        row.addWidget(self.smoothing)
        row.addStretch(1)
        for name, words in AXIS_LABELS.items():
            row.addWidget(create_text_button(actions[name], words), 0, Qt.AlignmentFlag.AlignRight)
        column = column_layout(self, (0, 0, 0, 0), spacing=2)
        column.addLayout(row)
        column.addWidget(self.view, 1)
        column.addWidget(self.notices)
        self.setFocusProxy(self.view)

    def show_plot(self, plot: LossPlot, options: PlotOptions, theme: Theme) -> None:
        self._options = options
        self.smoothing.setValue(SMOOTHING_STRENGTHS.index(options.smoothing))
        set_accessible_value(self.smoothing, f"{options.smoothing:g}")
        self.view.show_plot(plot, theme)
        self.notices.setText("\n".join(plot.notices))
        self.notices.setVisible(bool(plot.notices))

    def _set_smoothing(self, at: int) -> None:
        if SMOOTHING_STRENGTHS[at] != self._options.smoothing:
            self.optionsChosen.emit(replace(self._options, smoothing=SMOOTHING_STRENGTHS[at]))
