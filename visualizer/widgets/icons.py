"""Icons in the theme's text colour."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from visualizer.resources import resource_path

DISABLED_OPACITY = 0.4
"""Opacity of disabled icons, which is similar to that of disabled text."""


@lru_cache(maxsize=128)
def icon(name: str, colour: str) -> QIcon:
    """Render an icon in one colour at several sizes; its disabled mode is faded."""
    drawing = resource_path("icons", f"{name}.svg").read_text(encoding="utf-8")
    renderer = QSvgRenderer(QByteArray(drawing.replace("currentColor", colour).encode()))
    made = QIcon()
    for side in (16, 24, 32, 48, 64, 128, 256) if name == "app" else (16, 24, 32, 48):
        pixmap = _blank_pixmap(side)
        painter = QPainter(pixmap)
        renderer.render(painter, QRectF(0, 0, side, side))
        painter.end()
        made.addPixmap(pixmap)
        made.addPixmap(_fade_pixmap(pixmap), QIcon.Mode.Disabled)
    return made


def _fade_pixmap(pixmap: QPixmap) -> QPixmap:
    """Fade a pixmap uniformly, including where strokes overlap."""
    faded = _blank_pixmap(pixmap.width())
    painter = QPainter(faded)
    painter.setOpacity(DISABLED_OPACITY)
    painter.drawPixmap(0, 0, pixmap)
    painter.end()
    return faded


def _blank_pixmap(side: int) -> QPixmap:
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    return pixmap
