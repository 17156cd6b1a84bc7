"""Draws the loss chart with pyqtgraph, places its labels, and formats its legend and readout."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QPainterPath, QPen
from PySide6.QtWidgets import QGraphicsPathItem, QGraphicsSimpleTextItem

from visualizer.format import format_number
from visualizer.lab.loss_plot.model import LossLineRole, LossPlot
from visualizer.lab.loss_plot.presenter import nearest_step_index, read_values_at_step
from visualizer.lab.loss_plot.smoothing import thin_line, unique_sorted
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import LIGHT, head_colour, mix_with_background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from visualizer.lab.loss_plot.model import LegendEntry, LossLine
    from visualizer.lab.loss_plot.presenter import PlotReadout
    from visualizer.widgets.theme import Theme


def spread_boxes(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Place boxes without overlaps, keeping their order.

    The sum of the squared displacements is minimized.

    Parameters
    ----------
    wanted : sequence of float
        The preferred start of each box, in ascending order.
    size : float
        Size of each box.
    low, high : float
        The bounds, between which all boxes must fit.
    """
    # After the sizes of the preceding boxes are subtracted, this is isotonic regression: descending
    # runs are pooled.
    runs: list[tuple[float, int]] = []
    for at, place in enumerate(wanted):
        mean, count = place - at * size, 1
        while runs and runs[-1][0] > mean:
            before, number = runs.pop()
            mean = (before * number + mean * count) / (number + count)
            count += number
        runs.append((mean, count))
    flat = [mean for mean, count in runs for _ in range(count)]
    last = high - len(flat) * size
    return [min(max(mean, low), last) + at * size for at, mean in enumerate(flat)]


LABEL_GAP, LABEL_PADDING = 6.0, 3.0
"""Distance of a label from its vertical line, and padding on both sides of a label, in pixels."""


class PlotLabel(Struct, frozen=True):
    """A label on the plot, and the line that it names.

    Parameters
    ----------
    box : QRectF
        Position of the label, including the background on both sides.
    line : float
        The y coordinate of a horizontal line, or the x coordinate of a vertical line.
    """

    text: str
    box: QRectF
    line: float


def place_gap_labels(plot_area: QRectF, plot: LossPlot) -> list[PlotLabel]:
    """Place the labels of gaps at the top, next to the lines of the gaps."""
    labels = []
    for at, each in enumerate(plot.loss_gaps):
        x = plot_area.left() + float(plot.x.values_to_shares(each.step)) * plot_area.width()
        box = _label_box(plot_area, each.description).translated(0, at * font_metrics(12).height())
        box.moveLeft(x - LABEL_GAP - box.width() if x > plot_area.center().x() else x + LABEL_GAP)
        box.moveLeft(max(plot_area.left(), min(box.left(), plot_area.right() - box.width())))
        if box.bottom() <= plot_area.bottom():
            labels.append(PlotLabel(each.description, box, x))
    return labels


def place_reference_labels(
    plot_area: QRectF, plot: LossPlot, taken: Sequence[PlotLabel] = ()
) -> list[PlotLabel]:
    """Place the labels of reference losses on the right, as close to their lines as possible.

    The labels are in the order of their lines, and overlap neither each other nor the labels in
    `taken`. If there is not enough space for all of them, only the lowest losses are labelled.
    """
    height = font_metrics(12).height()
    ys = (
        plot_area.bottom()
        - plot.y.values_to_shares(np.array([one.loss for one in plot.reference_losses]))
        * plot_area.height()
    )
    named = list(zip(ys.tolist(), plot.reference_losses, strict=True))
    named.sort(key=lambda each: each[0])
    texts = [f"{one.name} {format_number(one.loss, 2)}" for _, one in named]
    boxes = [_label_box(plot_area, text) for text in texts]
    left = min((plot_area.right() - box.width() for box in boxes), default=plot_area.right())
    low = max(
        (each.box.bottom() for each in taken if each.box.right() > left), default=plot_area.top()
    )
    count = min(len(boxes), max(0, int((plot_area.bottom() - low) / height)))
    labelled = range(len(boxes) - count, len(boxes))
    preferred = [named[at][0] - height / 2 for at in labelled]
    tops = spread_boxes(preferred, height, low, plot_area.bottom())
    for at, top in zip(labelled, tops, strict=True):
        boxes[at].moveTopRight(QPointF(plot_area.right(), top))
    return [PlotLabel(texts[at], boxes[at], named[at][0]) for at in labelled]


def _label_box(plot_area: QRectF, text: str) -> QRectF:
    wide = min(font_metrics(12).horizontalAdvance(text) + 2 * LABEL_PADDING, plot_area.width())
    return QRectF(plot_area.left(), plot_area.top(), wide, font_metrics(12).height())


MARGIN_PX, TICK_PX, DOT_RADIUS_PX = 12, 4, 2.6
"""Margin, length of an axis tick, and radius of a point, in pixels."""
LINE_WIDTHS = {LossLineRole.EACH: 1.0, LossLineRole.TRAINING: 1.8, LossLineRole.VALIDATION: 1.8}
"""Widths of the lines, in pixels."""
MIN_DOT_DISTANCE_PX = 14.0
"""Minimum distance between the dots of a validation line, in pixels."""
COLUMN_WIDTH_PX = 2.0
"""Width of a column in device pixels; its first, lowest, highest and last points are drawn."""
MAX_OUTSIDE_HEIGHTS = 1.0
"""Maximum distance of lines from the plot, in plot heights, because Qt's coordinates are limited.
"""
AXES_Z, OVERLAY_Z = -1000.0, 10.0
"""Z values of the axes, which are below the lines, and of the labels, which are above them."""
MIN_FILLING_WIDTHS = 20.0
"""Length, in plot widths, from which a line fills an area; it is then one pixel wide."""


class LossChart:
    """Draws loss plots in a view that ignores mouse and key events."""

    def __init__(self) -> None:
        self.view = pg.GraphicsView()
        self.view.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.box = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.x, self.y = (pg.AxisItem(side, linkView=self.box) for side in ("bottom", "left"))
        self.x.setStyle(tickLength=TICK_PX, tickTextOffset=0, hideOverlappingLabels=200)
        self.y.setStyle(tickLength=0, tickTextOffset=TICK_PX, tickAlpha=255)
        self.y.setPen(QPen(Qt.PenStyle.NoPen))
        self.y.setGrid(255)
        for axis in (self.x, self.y):
            axis.setZValue(AXES_Z)
        for item in (self.box, self.x, self.y):
            self.view.addItem(item)
        self.line_items: list[Any] = []
        """The item that is drawn for each line, in the order of the plot's lines."""
        self._plot, self._theme = LossPlot(), LIGHT
        self._plot_items: list[Any] = []
        self._hover_items: list[Any] = []
        self.readout_item: Any = None
        """The readout next to the hovered step."""

    # ------------------------------------------------------------------ geometry

    @property
    def plot_area(self) -> QRectF:
        """The area between the axes, in pixels."""
        corners = (self.box.mapViewToScene(QPointF(*share)) for share in ((0, 1), (1, 0)))
        return QRectF(*corners)

    def point_at_step(self, step: float) -> QPointF:
        """Return the point at a step and at half the height."""
        share = float(self._plot.x.values_to_shares(step))
        place: QPointF = self.box.mapViewToScene(QPointF(share, 0.5))
        return place

    def step_at(self, x: float) -> float:
        """Return the step at an x coordinate, clamped to the axis."""
        share = self.box.mapSceneToView(QPointF(x, 0)).x()
        return float(self._plot.x.shares_to_values(min(max(share, 0.0), 1.0)))

    # ------------------------------------------------------------------ drawing

    def draw_plot(self, plot: LossPlot, theme: Theme) -> None:
        self.show_readout(None)
        for item in self._plot_items:
            self.view.scene().removeItem(item)
        self._plot, self._theme, self._plot_items = plot, theme, []
        self.view.setBackground(theme.paper)
        self._draw_axes()
        plot_area = self.plot_area
        self.line_items = [self._draw_line(line, plot_area.width()) for line in plot.lines]
        self._draw_snapshot_marks(plot_area)
        self._draw_labels(plot_area)
        if plot.shown_step is not None:
            self._draw_shown_step(plot.shown_step, plot_area)

    def _add_item(self, item: Any) -> Any:
        """Add an item to the plot area; it is removed when the next plot is drawn."""
        self.box.addItem(item, ignoreBounds=True)
        self._plot_items.append(item)
        return item

    def _draw_axes(self) -> None:
        plot, theme, (line, wide) = self._plot, self._theme, _text_metrics()
        left = max((wide(tick.label) for tick in plot.y.ticks), default=0) + TICK_PX + MARGIN_PX
        right = max((wide(tick.label) for tick in plot.x.ticks[-1:]), default=0) / 2 + MARGIN_PX
        whole = QRectF(self.view.rect())
        place = whole.adjusted(left, MARGIN_PX / 2, -right, -line - TICK_PX - MARGIN_PX / 2)
        place.setSize(place.size().expandedTo(QSizeF(1, 1)))
        self.box.setGeometry(place)
        ranges = (_axis_limits(place.width()), _axis_limits(place.height()))
        self.box.setRange(xRange=ranges[0], yRange=ranges[1], padding=0)
        self.x.setHeight(TICK_PX + line)
        self.y.setWidth(place.left())
        self.x.setGeometry(QRectF(place.left(), place.bottom(), place.width(), TICK_PX + line))
        self.y.setGeometry(QRectF(0, place.top(), place.left(), place.height()))
        for axis in (self.x, self.y):
            axis.setTextPen(theme.quiet)
            axis.setTickFont(scaled_font(12))
        self.x.setPen(theme.quiet)
        self.y.setTickPen(theme.hairline)
        self.x.setTicks(
            [[(float(plot.x.values_to_shares(each.value)), each.label) for each in plot.x.ticks]]
        )
        self.y.setTicks([list(_grid_lines(plot, 0.9 * line / place.height()))])

    def _draw_snapshot_marks(self, plot_area: QRectF) -> None:
        """Mark the saved steps on the axis; marks at the same position are drawn only once."""
        width, height = max(1.0, plot_area.width()), max(1.0, plot_area.height())
        shares = (
            unique_sorted(np.round(self._plot.x.values_to_shares(self._plot.stops) * width)) / width
        )
        self._add_item(pg.VTickGroup(shares, [0, TICK_PX / height], _make_pen(self._theme.accent)))

    def _draw_line(self, line: LossLine, width: float) -> Any:
        """Draw a line with its gaps; isolated points are drawn as dots."""
        xs, ys = _thinned_points(line, self._plot, width * self.view.devicePixelRatioF())
        colour = head_colour(line.colour, self._theme)
        if line.role is LossLineRole.EACH:  # opaque, so that crossing lines are not darker
            colour = mix_with_background(colour, self._theme.paper)
        is_drawn = np.isfinite(ys)
        length = np.nansum(np.abs(np.diff(ys))) * self.plot_area.height()
        pen = _make_pen(
            colour, 1 if length > MIN_FILLING_WIDTHS * width else LINE_WIDTHS[line.role]
        )
        curve = pg.PlotCurveItem(xs, ys, pen=pen, antialias=True, connect="finite")
        curve.setSegmentedLineMode("on")
        if is_drawn.any():
            self._add_item(curve)
        has_neighbour = np.append(False, is_drawn[:-1]) | np.append(is_drawn[1:], False)
        self._draw_dots(xs, ys, is_drawn & ~has_neighbour, DOT_RADIUS_PX, colour)
        if line.role is LossLineRole.VALIDATION:
            is_spaced = _spaced_points(xs * width, is_drawn)
            self._draw_dots(xs, ys, is_spaced, 2 * DOT_RADIUS_PX, colour)
        return curve

    def _draw_dots(self, xs: np.ndarray, ys: np.ndarray, which: np.ndarray, size: float,
              colour: str) -> None:  # fmt: skip
        if which.any():
            dots = pg.ScatterPlotItem(
                xs[which], ys[which], size=size, pen=None, brush=colour, antialias=True
            )
            self._add_item(dots)

    def _draw_labels(self, plot_area: QRectF) -> None:
        """Draw the lines at reference losses and gaps, and label each line on a background."""
        plot, theme = self._plot, self._theme
        ground = QColor(theme.paper)
        ground.setAlphaF(0.85)
        broken = place_gap_labels(plot_area, plot)
        ys = [float(plot.y.values_to_shares(one.loss)) for one in plot.reference_losses]
        xs = [float(plot.x.values_to_shares(one.step)) for one in plot.loss_gaps]
        for colour, lines, words in (
            (
                theme.quiet,
                [([0, 1], [y, y]) for y in ys],
                place_reference_labels(plot_area, plot, broken),
            ),
            (theme.warning, [([x, x], [0, 1]) for x in xs], broken),
        ):
            pen = _make_pen(colour, style=Qt.PenStyle.DashLine)
            for ends in lines:
                self._add_item(pg.PlotCurveItem(*ends, pen=pen))
            for each in words:
                self._draw_background(each.box, ground)
                self._draw_text(
                    each.text, each.box.adjusted(LABEL_PADDING, 0, -LABEL_PADDING, 0), colour
                )

    def _draw_shown_step(self, shown_step: int, plot_area: QRectF) -> None:
        """Draw a line at the selected step, and its number over the axis labels."""
        theme, words, (line, wide) = self._theme, f"{shown_step:,}", _text_metrics()
        pen = _make_pen(theme.accent, 2 * theme.stroke)
        self._add_item(
            pg.InfiniteLine(float(self._plot.x.values_to_shares(shown_step)), 90, pen)
        ).setZValue(OVERLAY_Z)
        box = QRectF(0, plot_area.bottom() + TICK_PX, wide(words) + 10, line + 2)
        left = self.point_at_step(shown_step).x() - box.width() / 2
        box.moveLeft(min(max(left, 0), self.view.width() - box.width()))
        self._draw_background(box, theme.accent, radius=3 * text_scale())
        self._draw_text(words, box, theme.on_accent, 0.5)

    # ------------------------------------------------------------------ hovering

    def show_readout(self, step: int | None) -> None:
        """Draw a line at the hovered step, a ring at each line's nearest point, and the readout."""
        for item in self._hover_items:
            self.view.scene().removeItem(item)
        self._hover_items, self.readout_item = [], None
        if step is None:
            return
        plot, theme, at = self._plot, self._theme, self.point_at_step(step).x()
        across = pg.InfiniteLine(float(plot.x.values_to_shares(step)), 90, _make_pen(theme.quiet))
        rings = pg.ScatterPlotItem(size=8, pen=_make_pen(theme.paper, 1.5), antialias=True)
        rings.addPoints(list(_ring_points(plot, step, theme)))
        for item in (across, rings):
            item.setZValue(OVERLAY_Z + 1)
            self.box.addItem(item, ignoreBounds=True)
        html = readout_html(read_values_at_step(plot, step), theme)
        readout = pg.TextItem(html=html, fill=theme.raised, border=theme.border)
        readout.textItem.document().setDocumentMargin(8)
        readout.setFont(scaled_font(12))
        readout.setZValue(OVERLAY_Z + 2)
        self.view.addItem(readout)
        wide = readout.boundingRect().width()
        left = at + READOUT_DISTANCE_PX
        if left + wide > self.view.width() - 2:
            left = at - READOUT_DISTANCE_PX - wide
        readout.setPos(max(left, 2), self.plot_area.top() + 4)
        self._hover_items, self.readout_item = [across, rings, readout], readout

    # ------------------------------------------------------------------ words

    def _draw_text(self, words: str, box: QRectF, colour: str, side: float = 0) -> None:
        """Draw text in a box; it is left-aligned if `side` is 0 and centred if it is 0.5."""
        line, wide = _text_metrics()
        cut = font_metrics(12).elidedText(words, Qt.TextElideMode.ElideRight, box.width() + 1)
        item = QGraphicsSimpleTextItem(cut)
        item.setFont(scaled_font(12))
        item.setBrush(QColor(colour))
        left = box.left() + side * (box.width() - wide(cut))
        item.setPos(left, box.center().y() - line / 2)
        self._add_overlay(item)

    def _draw_background(self, box: QRectF, colour: QColor | str, radius: float = 0) -> None:
        path = QPainterPath()
        path.addRoundedRect(box, radius, radius)
        item = QGraphicsPathItem(path)
        item.setPen(QPen(Qt.PenStyle.NoPen))
        item.setBrush(QColor(colour))
        self._add_overlay(item)

    def _add_overlay(self, item: QGraphicsSimpleTextItem | QGraphicsPathItem) -> None:
        item.setZValue(OVERLAY_Z)
        self.view.addItem(item)
        self._plot_items.append(item)


def _make_pen(
    colour: QColor | str, width: float = 1, style: Qt.PenStyle = Qt.PenStyle.SolidLine
) -> QPen:
    return pg.mkPen(QColor(colour), width=width, style=style)  # type: ignore[no-any-return]


def _text_metrics() -> tuple[float, Callable[[str], float]]:
    """Return the height of a text line, and a function that measures text widths."""
    return font_metrics(12).height(), font_metrics(12).horizontalAdvance


def _axis_limits(length: float) -> tuple[float, float]:
    """Return the limits of an axis of the given length: 0 to 1, extended by the radius of a dot."""
    share = min(0.1, DOT_RADIUS_PX / length)
    return -share, 1 + share


def _grid_lines(plot: LossPlot, apart: float) -> Iterator[tuple[float, str]]:
    """Yield the positions of the grid lines, with labels where they fit."""
    below = -math.inf
    for tick in plot.y.ticks:
        share = float(plot.y.values_to_shares(tick.value))
        has_room = share - below >= apart
        below = share if has_room else below
        yield share, tick.label if has_room else ""


def _thinned_points(line: LossLine, plot: LossPlot, width: float) -> tuple[np.ndarray, ...]:
    """Return a line's points as fractions of the axes, thinned to device pixels; gaps are NaN."""
    columns = max(2, round(width / COLUMN_WIDTH_PX))
    edges = plot.x.shares_to_values(np.linspace(0, 1, columns + 1))
    edges[-1] += 1  # the last step belongs to the last column
    steps, values = thin_line(line.steps, line.values, edges)
    ys = np.clip(plot.y.values_to_shares(values), -MAX_OUTSIDE_HEIGHTS, 1 + MAX_OUTSIDE_HEIGHTS)
    ys[~np.isfinite(values)] = np.nan
    return plot.x.values_to_shares(steps), ys


def _spaced_points(xs: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Choose points that are at least `MIN_DOT_DISTANCE_PX` apart, bool [point]."""
    chosen, last = np.zeros(len(xs), dtype=bool), -math.inf
    for at in np.flatnonzero(there).tolist():
        if xs[at] - last >= MIN_DOT_DISTANCE_PX:
            chosen[at], last = True, xs[at]
    return chosen


def _ring_points(plot: LossPlot, step: int, theme: Theme) -> Iterator[dict[str, Any]]:
    for line in plot.lines:
        at = nearest_step_index(line.steps, step)
        y = float(plot.y.values_to_shares(float(line.values[at])))
        if line.role is not LossLineRole.EACH and math.isfinite(y) and y < 1:
            place = float(plot.x.values_to_shares(float(line.steps[at]))), y
            yield {"pos": place, "brush": QColor(head_colour(line.colour, theme))}


MAX_NAME_PX = 240
"""Maximum width of a run's name, in pixels."""
KEY_SEPARATOR = f"{'&nbsp;' * 5} "
"""Separator of two keys, and the only place where a line can break."""
LINE_SYMBOLS = {
    None: "■",
    LossLineRole.TRAINING: "━━",
    LossLineRole.EACH: "──",
    LossLineRole.VALIDATION: "─●─",
}


def legend_html(plot: LossPlot, theme: Theme) -> str:
    """Format the legend and the titles of both axes as HTML, or the plot's message."""
    if plot.message:
        return f'<span style="color: {theme.quiet}">{escape(plot.message)}</span>'
    titles = _without_breaks(f"{plot.y.title} by {plot.x.title}")
    keys = [_legend_entry_html(key, theme) for key in plot.keys]
    return KEY_SEPARATOR.join([*keys, f'<span style="color: {theme.quiet}">{titles}</span>'])


def _legend_entry_html(key: LegendEntry, theme: Theme) -> str:
    colour = theme.quiet if key.colour is None else head_colour(key.colour, theme)
    if key.role is LossLineRole.EACH:
        colour = mix_with_background(colour, theme.paper)
    words = font_metrics(12).elidedText(key.text, Qt.TextElideMode.ElideMiddle, MAX_NAME_PX)
    sign = f'<span style="color: {colour}">{LINE_SYMBOLS[key.role]}</span>'
    return f'{sign}&nbsp;<span style="color: {theme.ink}">{_without_breaks(words)}</span>'


def _without_breaks(words: str) -> str:
    return escape(words).replace(" ", "&nbsp;")


MAX_TITLE_PX = 260.0
"""Maximum width of a line's name, in pixels."""
READOUT_DISTANCE_PX = 14.0
"""Distance of the readout from the hovered step, in pixels."""


def readout_html(readout: PlotReadout, theme: Theme) -> str:
    """Format the values at a step as an HTML table, with the colours of their lines."""
    rows = "".join(_table_rows(readout, theme))
    return (
        f'<div style="color: {theme.ink}; white-space: nowrap"><b>Step {readout.step:,}</b>'
        f'<table cellspacing="0">{rows}</table></div>'
    )


def _table_rows(readout: PlotReadout, theme: Theme) -> Iterator[str]:
    middle = Qt.TextElideMode.ElideMiddle
    for row in readout.rows:
        colour = "transparent" if row.colour is None else head_colour(row.colour, theme)
        title = escape(font_metrics(12).elidedText(row.title, middle, MAX_TITLE_PX))
        yield (
            f'<tr><td style="color: {colour}">■&nbsp;</td>'
            f'<td style="color: {theme.quiet}; padding-right: 16px">{title}</td>'
            f'<td align="right">{escape(row.value)}</td></tr>'
        )
