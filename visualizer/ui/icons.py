"""Our own icons, drawn in the theme's ink."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from visualizer.assets import resource


@lru_cache(maxsize=128)
def icon(name: str, colour: str) -> QIcon:
    """Draw an icon in one colour, sharp at up to three times its size."""
    drawing = resource("icons", f"{name}.svg").read_text(encoding="utf-8")
    renderer = QSvgRenderer(QByteArray(drawing.replace("currentColor", colour).encode()))
    made = QIcon()
    for side in (16, 24, 32, 48, 64, 128, 256) if name == "app" else (16, 24, 32, 48):
        pixmap = QPixmap(side, side)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        renderer.render(painter, QRectF(0, 0, side, side))
        painter.end()
        made.addPixmap(pixmap)
    return made
