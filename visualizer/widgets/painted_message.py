"""Message that is painted in an otherwise empty area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt

from visualizer.widgets.fonts import scaled_font, text_scale

if TYPE_CHECKING:
    from PySide6.QtCore import QRect
    from PySide6.QtGui import QPainter

MARGIN_PX = 12
"""Minimum distance from the edges, in pixels at the normal text size."""
FONT_SIZES_PX = (14, 12, 10)


def paint_message(
    painter: QPainter,
    area: QRect,
    message: str,
    largest: int = FONT_SIZES_PX[0],
    *,
    is_on_top: bool = False,
) -> None:
    """Paint a wrapped message at the largest size that fits.

    A message that is too long even at the smallest size starts at the top, so that its beginning
    is visible.

    Parameters
    ----------
    largest : int
        The largest font size to try, one of `FONT_SIZES_PX`.
    is_on_top : bool
        Whether to align the message at the top even if it fits.
    """
    margin = min(MARGIN_PX * text_scale(), area.width() / 8, area.height() / 8)
    room = QRectF(area).adjusted(margin, margin, -margin, -margin)
    across = Qt.AlignmentFlag.AlignLeft if is_on_top else Qt.AlignmentFlag.AlignHCenter
    flags = across | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
    needed = room
    for size in (each for each in FONT_SIZES_PX if each <= largest):
        painter.setFont(scaled_font(size))
        needed = painter.boundingRect(room, flags, message)
        if room.contains(needed):
            break
    if not is_on_top:
        room.adjust(0, max(0.0, (room.height() - needed.height()) / 2), 0, 0)
    painter.drawText(room, flags, message)
