"""Cells and hatching as what is painted on needs them: pixels in the window, shapes in a drawing.

Files are looked at by programs that smooth pictures that they enlarge, and on paper that has no
pixels: there, cells are shapes, and hatching is lines that grow with all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPaintEngine, QPainter, QPainterPath, QPen

from visualizer.heatmap import value_to_colour_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QPointF

    from visualizer.widgets.theme import Theme

MAX_VECTOR_CELLS = 64 * 64
"""Panels of more cells are pictures in a drawing, too."""
SHARP = 512
"""Pixels a side that a panel's picture has in a drawing; what enlarges it smooths no more."""
PITCH = 8
"""Pixels from line to line of a hatching, as in Qt's own."""
HATCH_WIDTH = 0.9
_DRAWINGS = {QPaintEngine.Type.SVG, QPaintEngine.Type.Pdf}


def is_drawing(painter: QPainter) -> bool:
    """Whether what is painted becomes shapes, and not pixels."""
    return painter.paintEngine().type() in _DRAWINGS


def paint_colours(
    painter: QPainter, area: QRectF, indices: np.ndarray, map_name: str, theme: Theme
) -> None:
    """Paint cells of the same size, each in its colour.

    Parameters
    ----------
    indices : ndarray
        Each cell's colour as one of 256, uint8 [row, column].
    """
    if not is_drawing(painter):
        painter.drawImage(area, value_to_colour_mapping.image(indices, map_name, theme))
        return
    rows, columns = indices.shape
    times = [max(1, SHARP // side) if side > 1 else 1 for side in (rows, columns)]
    enlarged = indices.repeat(times[0], axis=0).repeat(times[1], axis=1)
    # Also under shapes, so that no paper shines through where two of them meet.
    painter.drawImage(area, value_to_colour_mapping.indexed(enlarged, map_name, theme))
    if indices.size <= MAX_VECTOR_CELLS:
        _paint_shapes(painter, area, indices, value_to_colour_mapping.table(map_name, theme))


def _paint_shapes(painter: QPainter, area: QRectF, indices: np.ndarray, table: np.ndarray) -> None:
    rows, columns = indices.shape
    width, height = area.width() / columns, area.height() / rows
    painter.setPen(Qt.PenStyle.NoPen)
    for index in np.unique(indices).tolist():
        painter.setBrush(QColor.fromRgb(int(table[index])))
        shapes = [
            QRectF(
                area.left() + start * width,
                area.top() + row * height,
                (end - start) * width,
                height,
            )
            for row, start, end in runs(indices == index)
        ]
        painter.drawRects(shapes)


def runs(cells: np.ndarray) -> list[tuple[int, int, int]]:
    """Give each row's runs of true cells as (row, first column, column after the last)."""
    return list(zip(*(part.tolist() for part in edges(cells)), strict=True))


def edges(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the rows, the first columns and the columns after the last of all runs."""
    pitch = cells.shape[1] + 1
    flat = np.zeros((cells.shape[0], pitch), dtype=bool)  # after each row, one that is not
    flat[:, :-1] = cells
    turns = np.flatnonzero(np.diff(flat.ravel(), prepend=False))
    rows, starts = np.divmod(turns[::2], pitch)
    return rows, starts, turns[1::2] % pitch


def hatch(painter: QPainter, areas: list[QRectF], origin: QPointF, colour: str) -> None:
    """Hatch areas beside an origin; where they touch, the lines run on.

    In the window by Qt's pattern, which is fast and keeps to the pixels of the device. Elsewhere
    by lines that grow with the page.
    """
    is_window = not painter.combinedTransform().isScaling()
    if is_window and not is_drawing(painter):
        painter.save()
        painter.translate(origin)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrushOrigin(0, 0)  # the same wherever the panel stands
        painter.setBrush(QBrush(QColor(colour), Qt.BrushStyle.BDiagPattern))
        painter.drawRects(areas)
        painter.restore()
        return
    path = QPainterPath()
    for left, top, right, bottom in _hatching(areas, origin):
        path.moveTo(left, bottom)
        path.lineTo(right, top)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colour), HATCH_WIDTH, c=Qt.PenCapStyle.FlatCap))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.drawPath(path)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _hatching(areas: list[QRectF], origin: QPointF) -> Iterator[tuple[float, float, float, float]]:
    """Give the lines, rising to the right, as left, top, right and bottom."""
    if not areas:
        return
    x, y = origin.x(), origin.y()
    edges = [(one.left(), one.top(), one.right(), one.bottom()) for one in areas]
    left, top, right, bottom = np.array(edges).T
    first = np.floor((left + top).min() / PITCH) * PITCH
    for line in np.arange(first, (right + bottom).max() + PITCH, PITCH):  # where x + y is this
        starts, ends = np.maximum(left, line - bottom), np.minimum(right, line - top)
        crossed = starts < ends
        for start, end in _joined(starts[crossed], ends[crossed]):
            yield start + x, line - end + y, end + x, line - start + y


def _joined(starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[float, float]]:
    """Make one of the parts of a line that touch."""
    order = np.argsort(starts)
    starts, ends = starts[order], ends[order]
    is_apart = starts[1:] > ends[:-1] + 1e-6
    firsts, lasts = np.append(True, is_apart), np.append(is_apart, True)
    if len(starts):
        yield from zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def paint_outline(painter: QPainter, area: QRectF, colour: str) -> None:
    """Draw a line around an area, over none of it, at any enlargement."""
    ink, outer = QColor(colour), area.adjusted(-1, -1, 1, 1)
    for side in (
        QRectF(outer.left(), outer.top(), outer.width(), 1),
        QRectF(outer.left(), area.bottom(), outer.width(), 1),
        QRectF(outer.left(), area.top(), 1, area.height()),
        QRectF(area.right(), area.top(), 1, area.height()),
    ):
        painter.fillRect(side, ink)
