"""Creates the classes and enums used for painting before threads paint.

PySide creates a class and its enums on first use, and crashes if two threads do so at once.
Overload resolution of a call such as ``fillRect`` uses many of them.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QGradient,
    QImage,
    QPaintDevice,
    QPaintEngine,
    QPainter,
    QPainterPath,
    QPen,
    QTextDocument,
)

_PAINTED_WITH = (
    *(Qt, QBrush, QColor, QFont, QGradient, QImage, QPaintDevice, QPaintEngine, QPainter),
    *(QPainterPath, QPen, QTextDocument),
)


def create_painter_enums() -> None:
    """Access every painting enum once.

    Call this when a module that paints on threads is imported: the import lock prevents races.
    """
    for owner in _PAINTED_WITH:
        for name in dir(owner):
            getattr(owner, name, None)
