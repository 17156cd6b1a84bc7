"""Paints the marks of a prediction: discs, rings, ticks and crosses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap.hovered_or_pinned_cell_paint import frame, is_seen

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.step_cell_and_prediction_highlights import Highlights
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

Sign = tuple[tuple[float, float, float, float], ...]
TICK: Sign = ((-0.9, 0.0, -0.2, 0.6), (-0.2, 0.6, 0.6, -0.6))
CROSS: Sign = ((-0.6, -0.6, 0.5, 0.5), (-0.6, 0.5, 0.5, -0.6))


def paint_prediction_marks(
    painter: QPainter, slot: PanelSlot, highlights: Highlights, theme: Theme
) -> None:
    """Paint the marked cells or, once the answer is shown, which of them are right."""
    if highlights.verdict is None:
        for cell in highlights.marks:
            _paint_mark(painter, slot, cell, theme)
    else:
        for cell in highlights.verdict.wrong:
            _paint_sign(painter, slot, cell, CROSS, theme.warning, theme)
        for cell in highlights.verdict.missed:
            _paint_ring(painter, slot, cell, theme)
        for cell in highlights.verdict.right:
            _paint_sign(painter, slot, cell, TICK, theme.accent, theme)


def visible_cell_box(slot: PanelSlot, cell: Cell) -> QRectF | None:
    """Return the rectangle of a cell in a panel; None if it is not visible."""
    if not is_seen(slot.heatmap, cell):
        return None
    return slot.cell(*cell.place[-2:])


def _paint_mark(painter: QPainter, slot: PanelSlot, cell: Cell, theme: Theme) -> None:
    """Draw a disc in a marked cell."""
    place = visible_cell_box(slot, cell)
    if place is None:
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    radius = max(3.0, min(place.width(), place.height(), 28) / 5)
    painter.setPen(QPen(QColor(theme.paper), 1.5))
    painter.setBrush(QColor(theme.accent))
    painter.drawEllipse(place.center(), radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_ring(painter: QPainter, slot: PanelSlot, cell: Cell, theme: Theme) -> None:
    place = visible_cell_box(slot, cell)
    if place is not None:
        frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme)


def _paint_sign(
    painter: QPainter, slot: PanelSlot, cell: Cell, sign: Sign, colour: str, theme: Theme
) -> None:
    """Draw a tick or a cross in a corner of a cell, next to its number."""
    place = visible_cell_box(slot, cell)
    if place is None:
        return
    frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme, colour)
    size = max(3.0, min(place.width(), place.height(), 28) / 4)
    x, y = place.right() - size, place.top() + size
    lines = [QLineF(x + size * a, y + size * b, x + size * c, y + size * d) for a, b, c, d in sign]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    _draw_outlined(painter, lines, colour, theme)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _draw_outlined(painter: QPainter, lines: list[QLineF], colour: str, theme: Theme) -> None:
    """Draw lines visible on every colour."""
    for ink, width in ((theme.paper, 5.0), (colour, 2.5)):
        painter.setPen(QPen(QColor(ink), width, c=Qt.PenCapStyle.RoundCap))
        painter.drawLines(lines)
