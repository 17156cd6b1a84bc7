"""A figure for the clipboard: as pixels, and as a drawing for those who take one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QMimeData

from visualizer.state.progress import within
from visualizer.ui.figures.drawings import svg
from visualizer.ui.figures.page import figure_of, page_of
from visualizer.ui.figures.png import picture

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from visualizer.state.figure import FigureLook, Shot
    from visualizer.state.progress import Progress

SVG_MIME = "image/svg+xml"


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """What is put on the clipboard."""

    image: QImage
    svg: bytes

    def mime(self) -> QMimeData:
        """Give it as the clipboard takes it."""
        data = QMimeData()
        data.setImageData(self.image)
        data.setData(SVG_MIME, QByteArray(self.svg))
        return data


def copied(shot: Shot, look: FigureLook, progress: Progress) -> Copied:
    """Make a figure for the clipboard.

    Raises
    ------
    InputError
        When it is too large for the memory.
    """
    progress(0, 10)
    page = page_of(figure_of(shot, look), look)
    image = picture(page, look.dpi, within(progress, 20, 60))
    return Copied(image, svg(page, within(progress, 60, 100)))
