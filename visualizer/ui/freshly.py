"""Cells that were painted a moment ago, over a panel whose numbers do not know of it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter

from visualizer.ui.heatmap import areas, paint_hatch

if TYPE_CHECKING:
    from visualizer.state.painting import Fresh
    from visualizer.ui.slots import Slot
    from visualizer.ui.theme import Theme


def paint_fresh(painter: QPainter, slot: Slot, fresh: Fresh, theme: Theme) -> None:
    """Hatch what has become forbidden; leave blank what has no number yet."""
    if fresh.forbidden.shape != slot.heatmap.values.shape:
        return  # of a picture of another size, which is on its way
    painter.setPen(Qt.PenStyle.NoPen)
    for cells, colour in ((fresh.forbidden, theme.paper), (fresh.allowed, theme.raised)):
        painter.setBrush(QColor(colour))
        painter.drawRects(areas(slot, cells))
    paint_hatch(painter, slot, fresh.forbidden, theme)
