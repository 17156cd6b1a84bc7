"""Pictures of a board as files, drawn by the functions that draw the window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QImageWriter, QPainter

from visualizer.ui import heatmap as draw
from visualizer.ui.layout import MARGIN, Layout, lay_out
from visualizer.ui.theme import PRINT, Theme, font, text_scale

if TYPE_CHECKING:
    from visualizer.state.heatmaps import Board

WIDTH = 1280
DOTS_PER_INCH = 96
LARGEST_SIDE = 30_000


def picture(board: Board, caption: str, theme: Theme = PRINT, scale: float = 2.0) -> QImage:
    """Draw a whole board.

    Parameters
    ----------
    caption : str
        What stands under it: how the numbers were computed.
    scale : float
        Device pixels a pixel of the window.
    """
    layout = lay_out(board, WIDTH, math.inf, scale)
    foot = 28 * text_scale()
    width = max(layout.width, QFontMetricsF(font(12)).horizontalAdvance(caption) + 2 * MARGIN)
    height = layout.height + foot
    scale = min(scale, LARGEST_SIDE / max(width, height))
    image = QImage(round(width * scale), round(height * scale), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(QColor(theme.paper))
    painter = QPainter(image)
    _paint(painter, layout, theme)
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    painter.drawText(QRectF(MARGIN, layout.height, width, foot - 8), draw.LEFT, caption)
    painter.end()
    dots = round(DOTS_PER_INCH * scale / 0.0254)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Description", caption)
    return image


def _paint(painter: QPainter, layout: Layout, theme: Theme) -> None:
    for slot in layout.slots:
        draw.paint_slot(painter, slot, theme)
    draw.paint_titles(painter, layout.titles, theme)


def png(image: QImage) -> bytes:
    """Write a picture as PNG."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(buffer.data().data())
