"""Makes the classes and enums of painting before threads paint.

PySide makes a class and its enums when they are first used, and crashes where two threads use one
for the first time at once. Choosing the overload of a call such as ``fillRect`` uses many of them.
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
    """Use each enum of painting once.

    To be called where a module that paints on threads is imported: an import has a lock.
    """
    for owner in _PAINTED_WITH:
        for name in dir(owner):
            getattr(owner, name, None)
