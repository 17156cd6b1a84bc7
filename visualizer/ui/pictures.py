"""Pictures of a board as files, drawn by the functions that draw the window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, BinaryIO

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRectF
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QImageWriter, QPainter

from visualizer.attention.spec import InputError
from visualizer.ui import captions
from visualizer.ui import heatmap as draw
from visualizer.ui.layout import MARGIN, lay_out
from visualizer.ui.theme import PRINT, Theme, font, text_scale

if TYPE_CHECKING:
    from visualizer.state.panels import Board
    from visualizer.ui.slots import Layout

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

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    layout = lay_out(board, WIDTH, math.inf, scale)
    foot = 28 * text_scale()
    width = max(layout.width, QFontMetricsF(font(12)).horizontalAdvance(caption) + 2 * MARGIN)
    height = layout.height + foot
    scale = min(scale, LARGEST_SIDE / max(width, height))
    image = _blank(round(width * scale), round(height * scale))
    image.setDevicePixelRatio(scale)
    image.fill(QColor(theme.paper))
    painter = QPainter(image)
    _paint(painter, layout, theme)
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    painter.drawText(QRectF(MARGIN, layout.height, width, foot - 8), captions.LEFT, caption)
    painter.end()
    dots = round(DOTS_PER_INCH * scale / 0.0254)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Description", caption)
    return image


def _blank(width: int, height: int) -> QImage:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    if image.isNull():
        sentence = (
            f"A picture of {width:,} × {height:,} pixels is more than the memory holds. "
            "Show fewer stages, or export the numbers."
        )
        raise InputError("memory", sentence)
    return image


def _paint(painter: QPainter, layout: Layout, theme: Theme) -> None:
    for slot in layout.slots:
        draw.paint_slot(painter, slot, theme)
    captions.paint_titles(painter, layout.titles, theme)


def write_png(image: QImage, file: BinaryIO) -> None:
    """Write a picture as PNG into an open file.

    Raises
    ------
    InputError
        When Qt cannot write it.
    """
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, QByteArray(b"png"))
    if not writer.write(image):
        sentence = f"The picture could not be written as PNG: {writer.errorString()}."
        raise InputError("export", sentence)
    file.write(buffer.data().data())
