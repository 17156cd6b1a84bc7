"""The Scatter pane: heads plotted by two measures and coloured by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QContextMenuEvent,
    QGuiApplication,
    QKeySequence,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import QComboBox, QWidget

from visualizer.features.head_scatter.presenter import SCATTER_PANEL, HeadScatterContents
from visualizer.format import format_two_decimals
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table, create_colour_image
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.head_measurement_control import MeasurementControl
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import DescriptionLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.painted_message import paint_message
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent

    from visualizer.features.head_scatter.presenter import LayerHeadIndex
    from visualizer.session.screen import Screen

PANE_WIDTH_PX = 252
POINT_RADIUS_PX, HIT_DISTANCE_PX = 4, 12
"""Radius of a point, and maximum distance of a click, in pixels at the default text size."""
HINT = (
    "Each point is a head. Dashed lines mark uniform attention or a contribution of 0. Click a "
    "point to show its head."
)
KEYBOARD_HELP = (
    "Press Left and Right to move between heads along the horizontal axis, Enter to show a head "
    "in the heatmaps, and Ctrl+C to copy the values."
)
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class HeadScatterPane(QWidget):
    """Two lists of measures, the plot, and a description of the head under the pointer."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    measuresChosen = Signal(str, str)
    """Emitted with the names of the horizontal and the vertical measure."""
    headChosen = Signal(int, int)
    """Emitted with the index of a layer in the run, and a head to show in the heatmaps."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Scatter")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.across, self.up = QComboBox(), QComboBox()
        self.plot, self.description = HeadScatterPlot(), DescriptionLabel(HINT, lines=4)
        self.measuring = MeasurementControl()
        column = column_layout(self, (12, 4, 8, 8), spacing=6)
        for box, title in ((self.up, "Vertical"), (self.across, "Horizontal")):
            box.setAccessibleName(f"{title} measure")
            box.setToolTip(plain_tooltip(f"Measure on the {title.lower()} axis"))
            box.activated.connect(self._choose_measures)
            install_input_filters(box)
            whole, label = QWidget(), PlainTextLabel(title)
            row = row_layout(whole, (0, 0, 0, 0), spacing=6)
            row.addWidget(label)
            row.addWidget(box, 1)
            column.addWidget(whole)
        column.addWidget(self.plot, 1)
        column.addWidget(self.measuring)
        column.addWidget(self.description)
        self.plot.chosen.connect(self.headChosen)
        self.plot.pointed.connect(self.description.show_description)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(SCATTER_PANEL)
        for box, axis in ((self.across, panel.across), (self.up, panel.up)):
            names = [box.itemData(at) for at in range(box.count())]
            if names != [each.name for each in panel.choices]:
                box.clear()
                for each in panel.choices:
                    box.addItem(each.title, each.name)
            box.setEnabled(axis is not None)
            if axis is not None:
                box.setCurrentIndex(box.findData(axis.measure.name))
        self.measuring.show_measurement_status(panel.offer)
        self.description.setVisible(panel.offer is None)
        self.plot.show_panel(panel, theme)

    def _choose_measures(self) -> None:
        self.measuresChosen.emit(self.across.currentData(), self.up.currentData())


class HeadScatterPlot(QWidget):
    """The scatter plot, with mouse and keyboard input.

    It is painted directly, because its axes with two labels each, the colour bar and the rings
    would need as much code with pyqtgraph, and importing pyqtgraph takes half a second.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Chart
    chosen = Signal(int, int)
    headMenuRequested = Signal(int, int, QPoint)
    """Emitted with a layer index in the run, a head and a position on the screen."""
    pointed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Heads by two measures")
        self.setAccessibleDescription(KEYBOARD_HELP)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumHeight(round(160 * text_scale()))
        self._panel, self._theme = HeadScatterContents(), LIGHT
        self._places: tuple[LayerHeadIndex, ...] = ()
        self._values = np.empty((0, 2))
        """The values of all heads on both axes, [head, axis]."""
        self._current: LayerHeadIndex | None = None
        """The current head for keyboard navigation."""
        self._hovered: LayerHeadIndex | None = None

    def show_panel(self, panel: HeadScatterContents, theme: Theme) -> None:
        """Show the heads, or a message if there are none."""
        if panel is self._panel and theme is self._theme:
            return
        self._panel, self._theme, self._places = panel, theme, panel.plotted_heads
        axes = [axis for axis in (panel.across, panel.up) if axis]
        self._values = np.array([[axis.values[at] for axis in axes] for at in self._places])
        if self._current not in self._places:
            self._current = self._places[0] if self._places else None
        if self._hovered not in self._places:
            self._hovered = None
        self._announce_head()

    # ------------------------------------------------------------------ places

    @property
    def _plot_area(self) -> QRectF:
        """The rectangle between the axes."""
        line, radius = font_metrics(10).height(), (POINT_RADIUS_PX + 2) * text_scale()
        up = self._panel.up
        ends = map(format_two_decimals, up.limits if up else (0.0, 1.0))
        left = max(map(font_metrics(10).horizontalAdvance, ends)) + 6 + radius
        whole = QRectF(self.rect())
        return whole.adjusted(left, line + radius, -radius - 2, -3 * line - radius)

    def head_position(self, place: LayerHeadIndex) -> QPointF:
        """Return the position of a head in the widget."""
        across, up = self._panel.across, self._panel.up
        assert across is not None
        assert up is not None
        return self._map_point(float(across.values[place]), float(up.values[place]))

    def _map_point(self, right: float, above: float) -> QPointF:
        ((x, y),) = self._map_points(np.array([[right, above]])).tolist()
        return QPointF(x, y)

    def _map_points(self, numbers: np.ndarray) -> np.ndarray:
        """Convert values [head, axis] to positions; vectorized for many heads."""
        area, axes = self._plot_area, (self._panel.across, self._panel.up)
        low, high = np.array([axis.limits if axis else (0.0, 1.0) for axis in axes]).T
        shares = (numbers - low) / (high - low)
        placed: np.ndarray = (area.left(), area.bottom()) + shares * (area.width(), -area.height())
        return placed

    def _head_at(self, point: QPointF) -> LayerHeadIndex | None:
        if not self._places:
            return None
        distances = np.abs(self._map_points(self._values) - (point.x(), point.y())).sum(-1)
        nearest = int(distances.argmin())
        return (
            self._places[nearest] if distances[nearest] <= HIT_DISTANCE_PX * text_scale() else None
        )

    # ------------------------------------------------------------------ painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, panel = QPainter(self), self._panel
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(scaled_font(10))
        painter.setPen(QColor(self._theme.quiet))
        if panel.message or panel.across is None:
            paint_message(painter, self.rect(), panel.message, 10, is_on_top=True)
        else:
            self._paint_axes(painter)
            self._paint_points(painter)
        painter.end()

    def _paint_axes(self, painter: QPainter) -> None:
        area, line = self._plot_area, font_metrics(10).height()
        across, up = self._panel.across, self._panel.up
        assert across is not None
        assert up is not None
        margin = (POINT_RADIUS_PX + 2) * text_scale()
        frame = area.adjusted(-margin, -margin, margin, margin)
        painter.setPen(QPen(QColor(self._theme.hairline), 1))
        painter.drawRect(frame)
        painter.setPen(QPen(QColor(self._theme.quiet), 1, Qt.PenStyle.DashLine))
        if np.isfinite(across.chance):
            at = self._map_point(across.chance, up.limits[0]).x()
            painter.drawLine(QPointF(at, frame.top()), QPointF(at, frame.bottom()))
        if np.isfinite(up.chance):
            at = self._map_point(across.limits[0], up.chance).y()
            painter.drawLine(QPointF(frame.left(), at), QPointF(frame.right(), at))
        painter.setPen(QColor(self._theme.quiet))
        room = QRectF(frame.left(), frame.bottom() + 1, frame.width(), line)
        painter.drawText(room, ALIGN_LEFT, format_two_decimals(across.limits[0]))
        painter.drawText(room, ALIGN_RIGHT, format_two_decimals(across.limits[1]))
        title = font_metrics(10).elidedText(
            f"{across.title} →", Qt.TextElideMode.ElideRight, 0.6 * frame.width()
        )
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, title)
        painter.drawText(QRectF(0, 0, self.width(), line), ALIGN_LEFT, f"↑ {up.title}")
        for value, at in ((up.limits[0], area.bottom()), (up.limits[1], area.top())):
            side = QRectF(0, at - line / 2, frame.left() - 3, line)
            painter.drawText(side, ALIGN_RIGHT, format_two_decimals(value))
        self._paint_layer_scale(painter, room.translated(0, 1.3 * line))

    def _paint_layer_scale(self, painter: QPainter, room: QRectF) -> None:
        """Paint the colour scale of the layers, labelled with the first and the last number."""
        layers, lines = self._panel.layers, font_metrics(10)
        first, last = f"layer {layers[0] + 1}", str(layers[-1] + 1)
        left = lines.horizontalAdvance(first) + 6
        width = min(0.5 * room.width(), 100 * text_scale())
        painter.drawText(room, ALIGN_LEFT, first)
        bar = QRectF(room.left() + left, room.center().y() - 3, width, 6)
        ramp = np.arange(MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
        painter.drawImage(bar, create_colour_image(ramp, self._panel.map_name, self._theme))
        painter.drawText(room.adjusted(left + width + 6, 0, 0, 0), ALIGN_LEFT, last)

    def _paint_points(self, painter: QPainter) -> None:
        colours = colour_table(self._panel.map_name, self._theme)
        radius, count = POINT_RADIUS_PX * text_scale(), max(1, len(self._panel.layers) - 1)
        painter.setPen(QPen(QColor(self._theme.border), 1))
        points = self._map_points(self._values).tolist()
        for (layer, _), (x, y) in zip(self._places, points, strict=True):
            painter.setBrush(QColor(int(colours[layer * MAX_COLOUR_INDEX // count])))
            painter.drawEllipse(QPointF(x, y), radius, radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for place in self._panel.shown if len(self._panel.shown) == 1 else ():
            if place in self._places:
                self._paint_ring(painter, place, self._theme.ink)
        if self.hasFocus() and self._current is not None:
            self._paint_ring(painter, self._current, self._theme.accent)
        if self._hovered is not None:
            self._paint_ring(painter, self._hovered, self._theme.ink)

    def _paint_ring(self, painter: QPainter, place: LayerHeadIndex, colour: str) -> None:
        painter.setPen(QPen(QColor(colour), 2 * self._theme.stroke))
        radius = (POINT_RADIUS_PX + 2) * text_scale()
        painter.drawEllipse(self.head_position(place), radius, radius)

    # ------------------------------------------------------------------ input

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._set_hovered(self._head_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        self._set_hovered(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = self._head_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and place is not None:
            self._current = place
            self.chosen.emit(*place)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        place = self._current if is_by_key else self._head_at(QPointF(event.pos()))
        if place is not None:
            at = self.head_position(place).toPoint() if is_by_key else event.pos()
            self.headMenuRequested.emit(*place, self.mapToGlobal(at))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self._panel.as_tsv())
        elif step and not event.modifiers() and self._current is not None:
            to = self._places.index(self._current) + step
            self._current = self._places[min(max(0, to), len(self._places) - 1)]
            self._announce_head()
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and self._current is not None:
            self.chosen.emit(*self._current)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._announce_head()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._announce_head()

    def _set_hovered(self, place: LayerHeadIndex | None) -> None:
        if place != self._hovered:
            self._hovered = place
            self._announce_head()

    def _announce_head(self) -> None:
        """Mark and describe the hovered head or, with keyboard focus, the current head."""
        self.update()
        place = self._hovered or (self._current if self.hasFocus() else None)
        words = self._panel.describe_head(place) if place is not None else self._panel.message
        set_accessible_value(self, words)
        self.pointed.emit(words if place is not None else "")
