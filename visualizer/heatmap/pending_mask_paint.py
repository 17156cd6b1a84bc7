"""Paints mask changes until the recomputed values arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter

from visualizer.heatmap.panel_paint import areas, paint_hatch

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.panel_and_board_types import PendingCells
    from visualizer.widgets.theme import Theme


SMALLEST = 8
"""Minimum cell size in pixels for hatching to be visible."""


def paint_mask_changes(
    painter: QPainter, slot: PanelSlot, fresh: PendingCells, theme: Theme
) -> None:
    """Hatch newly forbidden cells, blank newly allowed ones; fill tiny cells with the accent."""
    if fresh.forbidden.shape != slot.heatmap.values.shape:
        return  # belongs to a pending board of a different size
    painter.save()
    painter.translate(slot.cells.topLeft())
    painter.setPen(Qt.PenStyle.NoPen)
    is_tiny = min(slot.cell_width, slot.cell_height) < SMALLEST
    blank = theme.accent if is_tiny else theme.raised
    under = theme.accent if is_tiny else theme.paper
    for cells, colour in ((fresh.forbidden, under), (fresh.allowed, blank)):
        painter.setBrush(QColor(colour))
        painter.drawRects(areas(slot, cells))
    painter.restore()
    if not is_tiny:
        paint_hatch(painter, slot, fresh.forbidden, theme)
