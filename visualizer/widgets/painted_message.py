"""A message that is painted where there is nothing else to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt

from visualizer.widgets.fonts import font, text_scale

if TYPE_CHECKING:
    from PySide6.QtCore import QRect
    from PySide6.QtGui import QPainter

MARGIN = 12
"""The least distance from the edges, in pixels at the usual text size."""
SIZES = (14, 12, 10)


def paint_message(
    painter: QPainter,
    area: QRect,
    message: str,
    largest: int = SIZES[0],
    *,
    is_on_top: bool = False,
) -> None:
    """Paint a message on as many lines as it needs, in the largest size that fits.

    What is too long even in the smallest size begins at the top, so that its beginning is seen.

    Parameters
    ----------
    largest : int
        The largest size, one of `SIZES`.
    is_on_top : bool
        Whether it begins at the top even if it fits.
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
