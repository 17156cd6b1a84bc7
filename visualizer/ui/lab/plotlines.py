"""Drawing a line of the plot of losses fast, however many points it has.

`QPainter` strokes wide lines by their outline, which takes it about half a second for 2,000 points
of noise; a line of one pixel takes it some milliseconds. So in pixels a wide line is several thin
ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF
from shiboken6 import VoidPtr

from visualizer.state.lab.plotted import Role
from visualizer.state.lab.smoothing import thinned
from visualizer.ui.ink import is_drawing
from visualizer.ui.lab.plotkeys import DOT, WIDTHS, faint
from visualizer.ui.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.state.lab.axis import Axis
    from visualizer.state.lab.plotted import Line
    from visualizer.ui.lab.plotframe import Frame
    from visualizer.ui.theme import Theme

DOTS_APART = 14.0
"""Pixels between the dots of a validation line, at least."""
COLUMN = 2.0
"""Pixels of the device of which a line keeps its first, least, largest and last point."""
SIDES = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))
FILLING = 20.0
"""A line that is so many times longer than the plot is wide fills an area: it needs no width."""
_A_POINT = 16
"""Bytes of two numbers."""


def paint_line(painter: QPainter, frame: Frame, x: Axis, y: Axis, line: Line, theme: Theme) -> None:
    """Draw a line between the axes, its gaps left open and its single points as dots."""
    times = abs(painter.deviceTransform().m11()) or 1.0
    points = _points(frame, x, y, line, times)
    colour = QColor(head_colour(line.colour, theme))
    if line.role is Role.EACH:
        colour = faint(colour, theme)
    for part in _parts(points):
        if len(part) == 1:
            _paint_dots(painter, part, colour, DOT / 2)
        elif is_drawing(painter):
            painter.setPen(QPen(colour, WIDTHS[line.role], j=Qt.PenJoinStyle.RoundJoin))
            painter.drawPolyline(_polygon(part))
        else:
            is_dense = len(part) * COLUMN > frame.inner.width() * times
            is_smooth = not (is_dense and line.role is Role.EACH)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
            _paint_pixels(painter, part, colour, _radii(part, frame, line.role, times))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    if line.role is Role.VALIDATION:
        _paint_dots(painter, points, colour, DOT)


def _points(frame: Frame, x: Axis, y: Axis, line: Line, times: float) -> np.ndarray:
    """Give the places of a line, as few as the device can show, float64 [point, 2]."""
    columns = max(2, round(frame.inner.width() * times / COLUMN))
    edges = x.value(np.linspace(0, 1, columns + 1))
    edges[-1] += 1  # the last step is in the last column
    steps, values = thinned(line.steps, line.values, edges)
    room = frame.inner.height()  # what is far outside is cut off: Qt's numbers have an end
    ys = np.clip(frame.y_of(y, values), frame.inner.top() - room, frame.inner.bottom() + room)
    ys[~np.isfinite(values)] = np.nan
    return np.stack([frame.x_of(x, steps), ys], axis=1)


def _parts(points: np.ndarray) -> Iterator[np.ndarray]:
    """Give the parts of a line between its gaps."""
    is_there = np.isfinite(points[:, 1])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_there, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield points[begin:end]


def _radii(part: np.ndarray, frame: Frame, role: Role, times: float) -> list[float]:
    """Give how far from a line's middle thin ones are drawn, so that no paper is between them."""
    length = float(np.hypot(*np.diff(part, axis=0).T).sum())
    beyond = (WIDTHS[role] - 1 / times) / 2
    if beyond <= 0 or length > FILLING * frame.inner.width():
        return [0.0]
    radii: list[float] = np.linspace(0, beyond, 1 + math.ceil(beyond * times)).tolist()
    return radii


def _paint_pixels(painter: QPainter, part: np.ndarray, colour: QColor, radii: list[float]) -> None:
    pen = QPen(colour, 1)
    pen.setCosmetic(True)  # one pixel of the device, which is what is fast
    painter.setPen(pen)
    for radius in radii:
        for side in SIDES if radius else SIDES[:1]:
            painter.drawPolyline(_polygon(part + radius * np.array(side)))


def _polygon(points: np.ndarray) -> QPolygonF:
    """Give Qt points, in one piece: one by one takes longer than drawing them."""
    polygon = QPolygonF()
    polygon.resize(len(points))
    pointer: Any = VoidPtr  # its types lack this way of making one
    memory = pointer(polygon.data(), len(points) * _A_POINT, True)
    np.frombuffer(memory, dtype=np.float64).reshape(-1, 2)[:] = points
    return polygon


def _paint_dots(painter: QPainter, points: np.ndarray, colour: QColor, radius: float) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    last = -math.inf
    for x, y in points[np.isfinite(points[:, 1])].tolist():
        if x - last >= DOTS_APART:
            painter.drawEllipse(QPointF(x, y), radius, radius)
            last = x
