"""Paints cells and hatching as pixels on screen, or as shapes in vector graphics.

Viewers smooth enlarged images, and printed pages have no pixels. In vector files, cells are
therefore shapes, and hatching consists of lines that scale with the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPaintEngine, QPainter, QPainterPath, QPen

from visualizer.heatmap import colour_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QPointF

    from visualizer.widgets.theme import Theme

MAX_VECTOR_CELLS = 64 * 64
"""Maximum number of cells that are shapes in vector graphics; larger panels are images."""
MIN_IMAGE_SIDE_PX = 512
"""Minimum side in pixels of a panel's image in vector graphics, so that it stays sharp."""
HATCH_SPACING_PX = 8
"""Distance between hatching lines in pixels, as in Qt's own pattern."""
HATCH_WIDTH_PX = 0.9
_VECTOR_ENGINES = {QPaintEngine.Type.SVG, QPaintEngine.Type.Pdf}


def is_vector_painter(painter: QPainter) -> bool:
    """Return whether the painter draws to a vector format."""
    return painter.paintEngine().type() in _VECTOR_ENGINES


def paint_cells(
    painter: QPainter, area: QRectF, indices: np.ndarray, map_name: str, theme: Theme
) -> None:
    """Paint cells of equal size, each in its colour.

    Parameters
    ----------
    indices : ndarray
        Colour index of each cell, uint8 [row, column].
    """
    if not is_vector_painter(painter):
        painter.drawImage(area, colour_mapping.create_colour_image(indices, map_name, theme))
        return
    rows, columns = indices.shape
    times = [max(1, MIN_IMAGE_SIDE_PX // side) if side > 1 else 1 for side in (rows, columns)]
    enlarged = indices.repeat(times[0], axis=0).repeat(times[1], axis=1)
    # Also drawn under shapes, so that no background shows between adjacent shapes.
    painter.drawImage(area, colour_mapping.create_indexed_image(enlarged, map_name, theme))
    if indices.size <= MAX_VECTOR_CELLS:
        _paint_vector_cells(painter, area, indices, colour_mapping.colour_table(map_name, theme))


def _paint_vector_cells(
    painter: QPainter, area: QRectF, indices: np.ndarray, table: np.ndarray
) -> None:
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
            for row, start, end in true_runs(indices == index)
        ]
        painter.drawRects(shapes)


def true_runs(cells: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the runs of true cells in each row as (row, first column, column after the last)."""
    return list(zip(*(part.tolist() for part in find_run_edges(cells)), strict=True))


def find_run_edges(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, the first columns and the columns after the last of all runs."""
    pitch = cells.shape[1] + 1
    flat = np.zeros((cells.shape[0], pitch), dtype=bool)  # each row ends with False
    flat[:, :-1] = cells
    turns = np.flatnonzero(np.diff(flat.ravel(), prepend=False))
    rows, starts = np.divmod(turns[::2], pitch)
    return rows, starts, turns[1::2] % pitch


def paint_hatching(painter: QPainter, areas: list[QRectF], origin: QPointF, colour: str) -> None:
    """Hatch areas relative to an origin, with lines that continue across adjacent areas.

    On screen, Qt's pattern is used, which is fast and aligned with device pixels. In vector
    graphics, lines that scale with the page are drawn.
    """
    is_window = not painter.combinedTransform().isScaling()
    if is_window and not is_vector_painter(painter):
        painter.save()
        painter.translate(origin)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrushOrigin(0, 0)  # independent of the panel's position
        painter.setBrush(QBrush(QColor(colour), Qt.BrushStyle.BDiagPattern))
        painter.drawRects(areas)
        painter.restore()
        return
    path = QPainterPath()
    for left, top, right, bottom in hatch_lines(areas, origin):
        path.moveTo(left, bottom)
        path.lineTo(right, top)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colour), HATCH_WIDTH_PX, c=Qt.PenCapStyle.FlatCap))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.drawPath(path)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def hatch_lines(
    areas: list[QRectF], origin: QPointF
) -> Iterator[tuple[float, float, float, float]]:
    """Yield lines that rise to the right, each as (left, top, right, bottom)."""
    if not areas:
        return
    x, y = origin.x(), origin.y()
    edges = [(one.left(), one.top(), one.right(), one.bottom()) for one in areas]
    left, top, right, bottom = np.array(edges).T
    first = np.floor((left + top).min() / HATCH_SPACING_PX) * HATCH_SPACING_PX
    last = (right + bottom).max() + HATCH_SPACING_PX
    for line in np.arange(first, last, HATCH_SPACING_PX):  # the points where x + y equals `line`
        starts, ends = np.maximum(left, line - bottom), np.minimum(right, line - top)
        crossed = starts < ends
        for start, end in _merge_segments(starts[crossed], ends[crossed]):
            yield start + x, line - end + y, end + x, line - start + y


def _merge_segments(starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[float, float]]:
    """Merge parts of a line that touch."""
    order = np.argsort(starts)
    starts, ends = starts[order], ends[order]
    is_apart = starts[1:] > ends[:-1] + 1e-6
    firsts, lasts = np.append(True, is_apart), np.append(is_apart, True)
    if len(starts):
        yield from zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def paint_outline(painter: QPainter, area: QRectF, colour: str) -> None:
    """Outline an area without covering any of it, at any scale."""
    ink, outer = QColor(colour), area.adjusted(-1, -1, 1, 1)
    for side in (
        QRectF(outer.left(), outer.top(), outer.width(), 1),
        QRectF(outer.left(), area.bottom(), outer.width(), 1),
        QRectF(outer.left(), area.top(), 1, area.height()),
        QRectF(area.right(), area.top(), 1, area.height()),
    ):
        painter.fillRect(side, ink)
