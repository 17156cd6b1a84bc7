"""Renders figures as raster images or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QImage, QPainter

from visualizer.errors import InputError
from visualizer.export.figure_settings import MM_PER_INCH, PIXELS_PER_INCH, FigureExtent
from visualizer.export.figures.cell_image import create_cell_image_source, render_cell_image
from visualizer.export.figures.figure_page import lay_out_exact_page, paint_page
from visualizer.progress import Progress, ignore_progress

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.export_snapshot import ExportSnapshot


MAX_SIDE_PX = 30_000


def render_figure_pixels(snapshot: ExportSnapshot, figure_settings: FigureSettings) -> np.ndarray:
    """Paint a figure as an array, uint8 [row, column, 4]: red, green, blue and alpha."""
    if figure_settings.extent is FigureExtent.CELLS:
        return render_cell_image(create_cell_image_source(snapshot, figure_settings))
    image = render_page(lay_out_exact_page(snapshot, figure_settings), figure_settings.dpi)
    image = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return np.array(image.constBits()).reshape(image.height(), image.width(), 4)


def render_page(page: FigurePage, dpi: float, progress: Progress = ignore_progress) -> QImage:
    """Paint a page; reduce the resolution if a side would exceed `MAX_SIDE_PX`.

    Raises
    ------
    InputError
        If there is not enough memory for the image.
    """
    width, height = page.size.width(), page.size.height()
    ratio = min(dpi / PIXELS_PER_INCH, MAX_SIDE_PX / max(width, height))
    image = create_image(round(width * ratio), round(height * ratio))
    painter = QPainter(image)
    painter.scale(ratio, ratio)
    try:
        paint_page(painter, page, progress)
    finally:  # also after an exception: a painter must end before its image is deleted
        painter.end()
    dots = round(PIXELS_PER_INCH * ratio / MM_PER_INCH * 1000)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Title", page.figure.name)
    image.setText("Description", page.figure.caption)
    return image


def create_image(width: int, height: int) -> QImage:
    """Create a blank image.

    Raises
    ------
    InputError
        If there is not enough memory for the image.
    """
    image = QImage(max(1, width), max(1, height), QImage.Format.Format_RGB32)
    if image.isNull():
        sentence = (
            f"There is not enough memory for an image of {width:,} × {height:,} "
            "pixels. Show fewer stages, or export numerical data."
        )
        raise InputError("memory", sentence)
    return image


def image_pixels(image: QImage) -> np.ndarray:
    """Return the pixels of an image from `create_image` as 0xrrggbb, uint32 [row, column]."""
    words = np.frombuffer(image.constBits(), np.uint32)
    rows = words.reshape(image.height(), image.bytesPerLine() // 4)
    pixels: np.ndarray = rows[:, : image.width()] & np.uint32(0xFFFFFF)
    return pixels
