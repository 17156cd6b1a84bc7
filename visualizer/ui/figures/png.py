"""Figures as pictures of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QImage, QImageWriter, QPainter

from visualizer.attention.spec import InputError
from visualizer.state.figure import MM_AN_INCH, PIXELS_AN_INCH
from visualizer.ui.figures.inside import carried, put_into_png
from visualizer.ui.figures.page import figure_of, page_of, paint_page

if TYPE_CHECKING:
    from visualizer.state.figure import FigureLook, Shot
    from visualizer.state.progress import Progress
from visualizer.ui.figures.page import Page

LARGEST_SIDE = 30_000
COMPRESSION = 30
"""Of 100: more takes three times as long and saves a tenth."""


def write_png(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    """Write a figure as PNG, which knows its size on paper and what was computed.

    Raises
    ------
    InputError
        When it is too large for the memory, or Qt cannot write it.
    """
    progress(0, 2)
    image = picture(page_of(figure_of(shot, look), look), look.dpi)
    put_into_png(image, carried(shot, look))
    progress(1, 2)
    save(image, file)


def picture(page: Page, dpi: float) -> QImage:
    """Paint a page, as sharp as asked for, or as a picture may be large.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    width, height = page.size.width(), page.size.height()
    ratio = min(dpi / PIXELS_AN_INCH, LARGEST_SIDE / max(width, height))
    image = _blank(round(width * ratio), round(height * ratio))
    painter = QPainter(image)
    painter.scale(ratio, ratio)
    paint_page(painter, page)
    painter.end()
    dots = round(PIXELS_AN_INCH * ratio / MM_AN_INCH * 1000)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Title", page.figure.name)
    image.setText("Description", page.figure.caption)
    return image


def _blank(width: int, height: int) -> QImage:
    image = QImage(max(1, width), max(1, height), QImage.Format.Format_RGB32)
    if image.isNull():
        sentence = (
            f"A picture of {width:,} × {height:,} pixels is more than the memory holds. "
            "Show fewer stages, or export the numbers."
        )
        raise InputError("memory", sentence)
    return image


def save(image: QImage, file: BinaryIO) -> None:
    """Write a picture as PNG into an open file.

    Raises
    ------
    InputError
        When Qt cannot write it.
    """
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, QByteArray(b"png"))
    writer.setCompression(COMPRESSION)
    if not writer.write(image):
        sentence = f"The picture could not be written as PNG: {writer.errorString()}."
        raise InputError("export", sentence)
    file.write(buffer.data().data())
