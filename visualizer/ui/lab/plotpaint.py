"""Painting the plot of losses, in the window and on any page, of any size.

By our own hand: pyqtgraph 0.14 keeps the window's thread for 47 to 60 ms to make its first plot and
for 130 to 165 ms to change to logarithmic axes (two cores at rest; 50 ms is the limit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from visualizer.state.lab.smoothing import distinct
from visualizer.ui.captions import LEFT, RIGHT
from visualizer.ui.lab.plotframe import EDGE, GAP, TICK, Frame, flat_title
from visualizer.ui.lab.plotkeys import DOT, paint_keys
from visualizer.ui.lab.plotlines import paint_line
from visualizer.ui.lab.plotwords import paint_words
from visualizer.ui.theme import font, metrics, text_scale

if TYPE_CHECKING:
    from visualizer.state.lab.plotted import LossPlot
    from visualizer.ui.theme import Theme

CENTRE = Qt.AlignmentFlag.AlignCenter


def paint_plot(painter: QPainter, area: QRectF, plot: LossPlot, theme: Theme) -> None:
    """Paint the plot into an area, on its paper; or what would be there."""
    painter.save()
    painter.fillRect(area, QColor(theme.paper))
    painter.setFont(font(12))
    if plot.message:
        painter.setPen(QColor(theme.quiet))
        flags = CENTRE | Qt.TextFlag.TextWordWrap
        painter.drawText(area.adjusted(2 * EDGE, 0, -2 * EDGE, 0), flags, plot.message)
    else:
        frame = Frame.of(area, plot)
        paint_keys(painter, frame.keys, plot.keys, theme)
        if frame.inner.width() > 1 and frame.inner.height() > 1:
            _paint_axes(painter, frame, plot, theme)
            _paint_inside(painter, frame, plot, theme)
    painter.restore()


def _paint_inside(painter: QPainter, frame: Frame, plot: LossPlot, theme: Theme) -> None:
    painter.save()
    painter.setClipRect(frame.inner.adjusted(-DOT, -1, DOT, 1))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for line in plot.lines:
        paint_line(painter, frame, plot.x, plot.y, line, theme)
    painter.restore()
    paint_words(painter, frame, plot, theme)


# --------------------------------------------------------------------------------------- axes


def _paint_axes(painter: QPainter, frame: Frame, plot: LossPlot, theme: Theme) -> None:
    inner, line = frame.inner, metrics(12).height()
    hairline, quiet = QColor(theme.hairline), QColor(theme.quiet)
    apart, above = 0.9 * line, float("inf")
    for tick in plot.y.ticks:
        y = round(float(frame.y_of(plot.y, tick.value)))
        painter.fillRect(QRectF(inner.left(), y, inner.width(), 1), hairline)
        box = QRectF(frame.whole.left(), y - line / 2, inner.left() - frame.whole.left(), line)
        painter.setPen(quiet)
        if above - y >= apart:  # in a flat plot, not all numbers have room
            painter.drawText(box.adjusted(0, 0, -TICK - 2, 0), RIGHT, tick.label)
            above = y
    painter.fillRect(QRectF(inner.left(), round(inner.bottom()), inner.width(), 1), quiet)
    for tick in plot.x.ticks:
        x = round(float(frame.x_of(plot.x, tick.value)))
        painter.fillRect(QRectF(x, round(inner.bottom()), 1, TICK), quiet)
        box = QRectF(x - 100, inner.bottom() + TICK, 200, line)
        painter.drawText(box, CENTRE, tick.label)
    _paint_titles(painter, frame, plot, line)
    _paint_stops(painter, frame, plot, theme)


def _paint_titles(painter: QPainter, frame: Frame, plot: LossPlot, line: float) -> None:
    inner, whole = frame.inner, frame.whole
    if frame.is_flat:
        beside = QRectF(whole.left(), frame.keys.top(), whole.width() - EDGE, line + 4)
        if frame.keys.right() < whole.right() - EDGE:
            painter.drawText(beside, RIGHT, flat_title(plot))
        return
    left = whole.left() + EDGE
    above = QRectF(left, inner.top() - line - GAP, whole.right() - left, line)
    painter.drawText(above, LEFT, plot.y.title)
    below = QRectF(inner.left(), inner.bottom() + TICK + line, inner.width(), line)
    painter.drawText(below, RIGHT, plot.x.title)


def _paint_stops(painter: QPainter, frame: Frame, plot: LossPlot, theme: Theme) -> None:
    """Mark the steps that can be looked at, on the axis; close ones as one."""
    xs = distinct(np.round(frame.x_of(plot.x, plot.stops)))
    for x in xs[(xs >= frame.inner.left()) & (xs <= frame.inner.right() + 1)].tolist():
        painter.fillRect(QRectF(x, frame.inner.bottom() - TICK, 1, TICK), QColor(theme.accent))


def paint_stand(painter: QPainter, frame: Frame, plot: LossPlot, theme: Theme) -> None:
    """Draw the step that is looked at."""
    if plot.stand is None or plot.message:
        return
    x, inner = float(frame.x_of(plot.x, plot.stand)), frame.inner
    painter.fillRect(
        QRectF(round(x) - 1, inner.top(), 2 * theme.stroke, inner.height() + TICK),
        QColor(theme.accent),
    )
    words = f"{plot.stand:,}"
    box = QRectF(0, 0, metrics(12).horizontalAdvance(words) + 10, metrics(12).height() + 2)
    box.moveCenter(QPointF(x, inner.bottom() + TICK + box.height() / 2))
    box.moveLeft(min(max(box.left(), frame.whole.left()), frame.whole.right() - box.width()))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.accent))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.drawRoundedRect(box, 3 * text_scale(), 3 * text_scale())
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setPen(QColor(theme.on_accent))
    painter.setFont(font(12))
    painter.drawText(box, CENTRE, words)
