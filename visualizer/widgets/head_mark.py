"""Marks that identify heads by their colour, and by their shape where colours repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap, QPolygonF

from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from visualizer.widgets.theme import Theme

DISC_SHAPE = "disc"
DIAMOND_SHAPE = ((0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5))
MARK_SHAPES: tuple[tuple[str | tuple[tuple[float, float], ...], bool], ...] = (
    (DISC_SHAPE, True),
    (DISC_SHAPE, False),
    (((0.05, 0.05), (0.95, 0.05), (0.95, 0.95), (0.05, 0.95)), True),
    (DIAMOND_SHAPE, False),
    (((0.5, 0.0), (1.0, 0.95), (0.0, 0.95)), True),
    (((0.0, 0.05), (1.0, 0.05), (0.5, 1.0)), False),
    (((0.3, 0.0), (0.7, 0.0), (0.7, 0.3), (1.0, 0.3), (1.0, 0.7), (0.7, 0.7),
      (0.7, 1.0), (0.3, 1.0), (0.3, 0.7), (0.0, 0.7), (0.0, 0.3), (0.3, 0.3)), True),
    (((0.05, 0.05), (0.95, 0.05), (0.95, 0.95), (0.05, 0.95)), False),
)  # fmt: skip
"""Corners of each shape in the unit square, and whether the shape is filled."""
OUTLINE_SHARE = 0.22
"""Outline width as a fraction of the mark's side."""


def mark_shape_index(head: int, theme: Theme) -> int:
    """Return the index of a head's shape, which changes each time the colours repeat."""
    return head // len(theme.heads) % len(MARK_SHAPES)


def paint_head_mark(
    painter: QPainter, place: QRectF, head: int, theme: Theme, edge: str = ""
) -> None:
    """Paint a head's mark in a square.

    Parameters
    ----------
    edge : str, optional
        Colour of an outline for backgrounds with too little contrast.
    """
    shape, is_filled = MARK_SHAPES[mark_shape_index(head, theme)]
    colour = QColor(head_colour(head, theme))
    width = 0.0 if is_filled else OUTLINE_SHARE * place.width()
    inner = place.adjusted(width / 2, width / 2, -width / 2, -width / 2)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if edge:
        painter.setPen(QPen(QColor(edge), width + 2))
        _paint_shape(painter, inner, shape)
    pen = QPen(colour, width)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    painter.setPen(Qt.PenStyle.NoPen if is_filled else pen)
    painter.setBrush(colour if is_filled else Qt.BrushStyle.NoBrush)
    _paint_shape(painter, inner, shape)
    painter.restore()


def _paint_shape(
    painter: QPainter, place: QRectF, shape: str | tuple[tuple[float, float], ...]
) -> None:
    if isinstance(shape, str):
        painter.drawEllipse(place)
        return
    corners = [
        QPointF(place.left() + x * place.width(), place.top() + y * place.height())
        for x, y in shape
    ]
    painter.drawPolygon(QPolygonF(corners))


def head_icon(head: int, side: int, ratio: float, theme: Theme) -> QIcon:
    """Create an icon of a head's mark, ``side`` logical pixels wide, for the given pixel ratio."""
    picture = QPixmap(QSize(side, side) * ratio)
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    paint_head_mark(painter, QRectF(0, 0, side, side), head, theme)
    painter.end()
    return QIcon(picture)
