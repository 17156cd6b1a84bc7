"""Message painted in an otherwise empty area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt

from visualizer.widgets.fonts import font, text_scale

if TYPE_CHECKING:
    from PySide6.QtCore import QRect
    from PySide6.QtGui import QPainter

MARGIN = 12
"""Minimum distance from the edges, in pixels at the normal text size."""
SIZES = (14, 12, 10)


def paint_message(
    painter: QPainter,
    area: QRect,
    message: str,
    largest: int = SIZES[0],
    *,
    is_on_top: bool = False,
) -> None:
    """Paint a wrapped message in the largest size that fits.

    A message that is too long even in the smallest size starts at the top, so that its beginning
    is visible.

    Parameters
    ----------
    largest : int
        Largest size, one of `SIZES`.
    is_on_top : bool
        Whether to align the message at the top even if it fits.
    """
    margin = min(MARGIN * text_scale(), area.width() / 8, area.height() / 8)
    room = QRectF(area).adjusted(margin, margin, -margin, -margin)
    across = Qt.AlignmentFlag.AlignLeft if is_on_top else Qt.AlignmentFlag.AlignHCenter
    flags = across | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
    needed = room
    for size in (each for each in SIZES if each <= largest):
        painter.setFont(font(size))
        needed = painter.boundingRect(room, flags, message)
        if room.contains(needed):
            break
    if not is_on_top:
        room.adjust(0, max(0.0, (room.height() - needed.height()) / 2), 0, 0)
    painter.drawText(room, flags, message)
