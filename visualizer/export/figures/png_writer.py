"""Write figures as PNG."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from PySide6.QtGui import QImage

from visualizer.export.figures.document_attachment import attached_document, put_into_png
from visualizer.export.figures.figure_page import figure_of, page_of
from visualizer.export.figures.rasterization import picture
from visualizer.progress_callback import Progress, no_progress, part_of_progress

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.exportable_snapshot import Snapshot


LEVEL = 1
"""zlib level; higher ones take longer and save little."""
BAND = 32
"""Rows that are written at once: few, so that their memory is reused."""
UP = 2
"""The filter of rows that are differences to the one above."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_png(
    snapshot: Snapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
    page: FigurePage | None = None,
) -> None:
    """Write a figure as PNG with its physical size and caption as metadata.

    Parameters
    ----------
    page : FigurePage, optional
        The figure's page, if it has been laid out.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    progress(0, 10)
    page = page or page_of(figure_of(snapshot, figure_settings), figure_settings)
    image = picture(page, figure_settings.dpi, part_of_progress(progress, 20, 60))
    put_into_png(image, attached_document(snapshot, figure_settings))
    save(image, file, part_of_progress(progress, 60, 100))


def save(image: QImage, file: BinaryIO, progress: Progress = no_progress) -> None:
    """Write an image as PNG into an open file, with its text chunks and physical size.

    For areas of one colour, unfiltered rows (filter 0) give smaller files, three to four times as
    fast, than the predicting filters that Qt and Pillow use. Rows like the one above, of which
    enlarged cells have many, are differences to it (filter 2), all 0. See the PNG specification,
    third edition, sections 5, 9 and 11.
    """
    sizes = struct.pack(">IIBBBBB", image.width(), image.height(), 8, 2, 0, 0, 0)
    dots = struct.pack(">IIB", image.dotsPerMeterX(), image.dotsPerMeterY(), 1)
    file.write(SIGNATURE)
    _write_chunk(file, b"IHDR", sizes)
    _write_chunk(file, b"pHYs", dots)
    for key in image.textKeys():
        _write_chunk(file, b"iTXt", key.encode("latin-1") + bytes(5) + _coded(image.text(key)))
    packer = zlib.compressobj(LEVEL)
    above = np.empty(0, np.uint8)
    for top in range(0, image.height(), BAND):
        progress(top, image.height())
        pixels = _pixels(image, top)
        _write_chunk(file, b"IDAT", packer.compress(_filtered(pixels, above)))
        above = pixels[-1]
    _write_chunk(file, b"IDAT", packer.flush())
    _write_chunk(file, b"IEND", b"")


def _coded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _pixels(image: QImage, top: int) -> np.ndarray:
    """Return some rows as red, green and blue, [row, byte]."""
    height = min(BAND, image.height() - top)
    band = image.copy(0, top, image.width(), height).convertToFormat(QImage.Format.Format_RGB888)
    pixels = np.frombuffer(band.constBits(), np.uint8).reshape(height, band.bytesPerLine())
    return pixels[:, : 3 * image.width()].copy()  # the band is freed with this function


def _filtered(pixels: np.ndarray, above: np.ndarray) -> bytes:
    """Return rows after their filter bytes.

    Parameters
    ----------
    above : ndarray
        The row above the first, [byte]; empty at the top.
    """
    rows = np.empty((len(pixels), 1 + pixels.shape[1]), np.uint8)
    is_like = np.empty(len(pixels), bool)
    is_like[0] = np.array_equal(pixels[0], above)
    is_like[1:] = (pixels[1:] == pixels[:-1]).all(1)
    rows[:, 0] = np.where(is_like, UP, 0)
    rows[:, 1:] = pixels
    rows[is_like, 1:] = 0
    return rows.tobytes()


def _write_chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    if data or kind != b"IDAT":
        file.write(struct.pack(">I", len(data)) + kind + data)
        file.write(struct.pack(">I", zlib.crc32(kind + data)))
