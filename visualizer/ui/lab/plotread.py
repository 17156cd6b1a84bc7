"""The numbers of the plot of losses at the step that is pointed at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from visualizer.state.lab.plot_reading import nearest, read_at
from visualizer.state.lab.plotted import Role
from visualizer.ui.captions import LEFT, RIGHT
from visualizer.ui.theme import font, head_colour, metrics

if TYPE_CHECKING:
    from visualizer.state.lab.plot_reading import Reading
    from visualizer.state.lab.plotted import LossPlot
    from visualizer.ui.lab.plotframe import Frame
    from visualizer.ui.theme import Theme

LONGEST = 260.0
"""Pixels of a line's name, at most."""
MARGIN, BETWEEN, SWATCH, AWAY = 8.0, 16.0, 8.0, 14.0


def paint_reading(painter: QPainter, frame: Frame, plot: LossPlot, step: int, theme: Theme) -> None:
    """Draw a line at a step, a ring at each line's nearest point, and their numbers beside it."""
    reading, x = read_at(plot, step), float(frame.x_of(plot.x, step))
    painter.fillRect(
        QRectF(round(x), frame.inner.top(), 1, frame.inner.height()), QColor(theme.quiet)
    )
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for line in plot.lines:
        at = nearest(line.steps, step)
        y = float(frame.y_of(plot.y, float(line.values[at])))
        if line.role is not Role.EACH and np.isfinite(y) and y > frame.inner.top():
            painter.setPen(QPen(QColor(theme.paper), 1.5))
            painter.setBrush(QColor(head_colour(line.colour, theme)))
            place = QPointF(float(frame.x_of(plot.x, float(line.steps[at]))), y)
            painter.drawEllipse(place, 4, 4)
    _paint_box(painter, frame, x, reading, theme)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_box(painter: QPainter, frame: Frame, x: float, reading: Reading, theme: Theme) -> None:
    line, wide = metrics(12).height() + 2, metrics(12).horizontalAdvance
    shortened = [
        metrics(12).elidedText(row.title, Qt.TextElideMode.ElideMiddle, LONGEST)
        for row in reading.rows
    ]
    titles = max(map(wide, shortened), default=0.0)
    values = max((wide(row.value) for row in reading.rows), default=0.0)
    width = MARGIN + SWATCH + MARGIN + titles + BETWEEN + values + MARGIN
    height = MARGIN + line * (len(reading.rows) + 1) + MARGIN
    box = QRectF(x + AWAY, frame.inner.top() + 4, width, height)
    if box.right() > frame.whole.right() - 2:
        box.moveRight(x - AWAY)
    box.moveLeft(max(box.left(), frame.whole.left() + 2))
    painter.setPen(QPen(QColor(theme.border), 1))
    painter.setBrush(QColor(theme.raised))
    painter.drawRoundedRect(box.toRect().toRectF().translated(0.5, 0.5), 4, 4)
    inner = box.adjusted(MARGIN, MARGIN, -MARGIN, 0)
    inner.setHeight(line)
    painter.setPen(QColor(theme.ink))
    painter.setFont(font(12, QFont.Weight.DemiBold))
    painter.drawText(inner, LEFT, f"Step {reading.step:,}")
    painter.setFont(font(12))
    for row, title in zip(reading.rows, shortened, strict=True):
        inner.translate(0, line)
        if row.colour is not None:
            swatch = QRectF(inner.left(), inner.center().y() - SWATCH / 2, SWATCH, SWATCH)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(head_colour(row.colour, theme)))
            painter.drawRoundedRect(swatch, 2, 2)
        painter.setPen(QColor(theme.quiet))
        painter.drawText(inner.adjusted(SWATCH + MARGIN, 0, 0, 0), LEFT, title)
        painter.setPen(QColor(theme.ink))
        painter.drawText(inner, RIGHT, row.value)
