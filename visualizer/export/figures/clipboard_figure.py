"""A figure for the clipboard, as pixels and as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QByteArray, QMimeData

from visualizer.export.figures.figure_page import exact_page_of
from visualizer.export.figures.rasterization import picture
from visualizer.export.figures.svg_pdf_writer import svg
from visualizer.progress_callback import part_of_progress

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.progress_callback import Progress
    from visualizer.session.exportable_snapshot import Snapshot

SVG_MIME = "image/svg+xml"


class ClipboardFigure(Struct, frozen=True, eq=False):
    """A figure as PNG and SVG for the clipboard."""

    image: QImage
    svg: bytes

    def mime(self) -> QMimeData:
        data = QMimeData()
        data.setImageData(self.image)
        data.setData(SVG_MIME, QByteArray(self.svg))
        return data


def clipboard_figure(
    snapshot: Snapshot, figure_settings: FigureSettings, progress: Progress
) -> ClipboardFigure:
    """Make a figure for the clipboard.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    progress(0, 10)
    page = exact_page_of(snapshot, figure_settings, progress)
    image = picture(page, figure_settings.dpi, part_of_progress(progress, 20, 60))
    return ClipboardFigure(image, svg(page, part_of_progress(progress, 60, 100)))
