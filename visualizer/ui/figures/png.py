"""Figures as pictures of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
from PySide6.QtGui import QImage, QPainter

from visualizer.attention.spec import InputError
from visualizer.state.figure import MM_AN_INCH, PIXELS_AN_INCH
from visualizer.state.progress import Progress, Told, quietly, within
from visualizer.ui.figures.inside import carried, put_into_png
from visualizer.ui.figures.page import figure_of, page_of, paint_page

if TYPE_CHECKING:
    from visualizer.state.figure import FigureLook, Shot
    from visualizer.ui.figures.page import Page

LARGEST_SIDE = 30_000
SMALLER = 20
"""How much fewer bytes a picture of heatmaps has as PNG, about."""
LEVEL = 1
"""Of 9: more takes longer, and saves little."""


def write_png(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    """Write a figure as PNG, which knows its size on paper and what was computed.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    progress(0, 10)
    page = page_of(figure_of(shot, look), look)
    image = picture(page, look.dpi, within(progress, 20, 60))
    put_into_png(image, carried(shot, look))
    save(image, file, within(progress, 60, 100))


def pixels(shot: Shot, look: FigureLook) -> np.ndarray:
    """Paint a figure as numbers, uint8 [row, column, 4]: red, green, blue and opacity."""
    image = picture(page_of(figure_of(shot, look), look), look.dpi)
    image = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return np.array(image.constBits()).reshape(image.height(), image.width(), 4)


def picture(page: Page, dpi: float, progress: Progress = quietly) -> QImage:
    """Paint a page, as sharp as asked for, or as a picture may be large.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    width, height = page.size.width(), page.size.height()
    ratio = min(dpi / PIXELS_AN_INCH, LARGEST_SIDE / max(width, height))
    image = blank(round(width * ratio), round(height * ratio))
    painter = QPainter(image)
    painter.scale(ratio, ratio)
    try:
        paint_page(painter, page, progress)
    finally:  # also where it is called off: no picture may go before its painter
        painter.end()
    dots = round(PIXELS_AN_INCH * ratio / MM_AN_INCH * 1000)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Title", page.figure.name)
    image.setText("Description", page.figure.caption)
    return image


def blank(width: int, height: int) -> QImage:
    """Make a picture to paint on.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    image = QImage(max(1, width), max(1, height), QImage.Format.Format_RGB32)
    if image.isNull():
        sentence = (
            f"A picture of {width:,} × {height:,} pixels is more than the memory holds. "
            "Show fewer stages, or export the numbers."
        )
        raise InputError("memory", sentence)
    return image


def save(image: QImage, file: BinaryIO, progress: Progress = quietly) -> None:
    """Write a picture as PNG into an open file, with its texts and its size on paper."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    progress(0, 1)
    whole = image.convertToFormat(QImage.Format.Format_RGB888)
    size = (whole.width(), whole.height())
    pixels = Image.frombuffer(
        "RGB", size, bytes(whole.constBits()), "raw", "RGB", whole.bytesPerLine()
    )
    said = PngInfo()
    for key in image.textKeys():
        said.add_itxt(key, image.text(key).encode("utf-8", "replace").decode())
    dots = (image.dotsPerMeterX() * 0.0254, image.dotsPerMeterY() * 0.0254)
    told = Told(file, progress, image.sizeInBytes() // SMALLER)
    told.write(b"")  # it is some time until there is the first of it
    pixels.save(cast("BinaryIO", told), "png", compress_level=LEVEL, dpi=dots, pnginfo=said)
