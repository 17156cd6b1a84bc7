"""Drawing of a figure into pixels, as an image or an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QImage, QPainter

from visualizer.errors import InputError
from visualizer.export.figure_settings import MM_AN_INCH, PIXELS_AN_INCH, FigureExtent
from visualizer.export.figures.figure_page import exact_page_of, paint_page
from visualizer.export.figures.panel_cells_picture import cells_as_array, panel_cells_of
from visualizer.progress import Progress, no_progress

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.exportable_snapshot import Snapshot


MAX_SIDE_PX = 30_000


def pixels(snapshot: Snapshot, figure_settings: FigureSettings) -> np.ndarray:
    """Paint a figure as an array, uint8 [row, column, 4]: red, green, blue and alpha."""
    if figure_settings.extent is FigureExtent.CELLS:
        return cells_as_array(panel_cells_of(snapshot, figure_settings))
    image = picture(exact_page_of(snapshot, figure_settings), figure_settings.dpi)
    image = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return np.array(image.constBits()).reshape(image.height(), image.width(), 4)


def picture(page: FigurePage, dpi: float, progress: Progress = no_progress) -> QImage:
    """Paint a page at a resolution, limited by the largest size of an image.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    width, height = page.size.width(), page.size.height()
    ratio = min(dpi / PIXELS_AN_INCH, MAX_SIDE_PX / max(width, height))
    image = blank(round(width * ratio), round(height * ratio))
    painter = QPainter(image)
    painter.scale(ratio, ratio)
    try:
        paint_page(painter, page, progress)
    finally:  # also if cancelled: a painter must end before its image is deleted
        painter.end()
    dots = round(PIXELS_AN_INCH * ratio / MM_AN_INCH * 1000)
    image.setDotsPerMeterX(dots)
    image.setDotsPerMeterY(dots)
    image.setText("Title", page.figure.name)
    image.setText("Description", page.figure.caption)
    return image


def blank(width: int, height: int) -> QImage:
    """Make an image to paint on.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    image = QImage(max(1, width), max(1, height), QImage.Format.Format_RGB32)
    if image.isNull():
        sentence = (
            f"There is not enough memory for an image of {width:,} × {height:,} "
            "pixels. Show fewer stages, or export the numbers."
        )
        raise InputError("memory", sentence)
    return image


def words_of(image: QImage) -> np.ndarray:
    """Return an image made by `blank` as 0xrrggbb, uint32 [row, column]."""
    words = np.frombuffer(image.constBits(), np.uint32)
    rows = words.reshape(image.height(), image.bytesPerLine() // 4)
    found: np.ndarray = rows[:, : image.width()] & np.uint32(0xFFFFFF)
    return found
