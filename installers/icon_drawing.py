"""Renders the program's icon from its SVG file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from visualizer.resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DRAWING = resource_path("icons", "app.svg")


def render_icons(sides: Iterable[int]) -> Iterator[QImage]:
    """Yield an image of the icon for each of the given side lengths in pixels.

    The icon contains no text, so neither a Qt application nor a screen is required.
    """
    renderer = QSvgRenderer(str(DRAWING))
    for side in sides:
        image = QImage(side, side, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        renderer.render(painter)
        painter.end()
        yield image
