"""Paints over a panel: cells not computed yet, step highlights, predictions and their marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap import annotation_paint
from visualizer.heatmap.cursor_paint import frame, is_seen, light_column_label, light_row_label
from visualizer.heatmap.label_metrics import sums_width
from visualizer.widgets.theme import font

if TYPE_CHECKING:
    from visualizer.heatmap.layout import PanelSlot
    from visualizer.heatmap.step_highlights import ComputedExtent, HighlightBlock, Highlights
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

SMALLEST_GRID = 8
SMALLEST_UNDERLINED = 20
MADE, READ = 3.0, 1.5

Sign = tuple[tuple[float, float, float, float], ...]
TICK: Sign = ((-0.9, 0.0, -0.2, 0.6), (-0.2, 0.6, 0.6, -0.6))
CROSS: Sign = ((-0.6, -0.6, 0.5, 0.5), (-0.6, 0.5, 0.5, -0.6))


def paint_lights(painter: QPainter, slot: PanelSlot, lights: Highlights, theme: Theme) -> None:
    """Cover the hidden part of a panel, and highlight what is computed and read."""
    stage = slot.heatmap.stage
    if stage in lights.covered:
        _paint_covered(painter, slot, theme)
    for reach in lights.reaches:
        if reach.stage == stage:
            _paint_empty(painter, slot, reach, theme)
    is_lit = not slot.heatmap.fold and not slot.heatmap.is_alone
    for lit in lights.lit:
        if lit.stage == stage and lit.head == slot.heatmap.head and is_lit:
            _paint_lit(painter, slot, lit, theme)
    if lights.leading and len(lights.lit[0].rows) * len(lights.lit[0].columns) > 1:
        place = _place(slot, lights.leading)
        if place is not None and min(place.width(), place.height()) >= SMALLEST_UNDERLINED:
            _underline(painter, place, theme)
    _paint_marks(painter, slot, lights, theme)


def _paint_marks(painter: QPainter, slot: PanelSlot, lights: Highlights, theme: Theme) -> None:
    if lights.verdict is None:
        for cell in lights.marks:
            _paint_mark(painter, slot, cell, theme)
    else:
        for cell in lights.verdict.wrong:
            _paint_sign(painter, slot, cell, CROSS, theme.warning, theme)
        for cell in lights.verdict.missed:
            _paint_ring(painter, slot, cell, theme)
        for cell in lights.verdict.right:
            _paint_sign(painter, slot, cell, TICK, theme.accent, theme)


def _paint_covered(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    area = slot.cells.adjusted(0, 0, sums_width(slot.heatmap), 0)
    painter.fillRect(area, QColor(theme.paper))
    painter.fillRect(slot.cells, QColor(theme.raised))
    _paint_grid(painter, slot, 0, theme)
    painter.setFont(font(20))
    painter.setPen(QColor(theme.quiet))
    painter.drawText(slot.cells, annotation_paint.CENTRE, "?")


def _paint_empty(painter: QPainter, slot: PanelSlot, reach: ComputedExtent, theme: Theme) -> None:
    """Blank the cells that are computed later: the rest of a row, and all rows after it."""
    cells, heatmap = slot.cells, slot.heatmap
    rows = max(0, (reach.rows - heatmap.rows.seen.start) / heatmap.rows.block)
    if rows >= heatmap.values.shape[0]:
        return
    top = cells.top() + rows * slot.cell_height
    below = top
    if reach.columns and reach.rows in heatmap.rows.seen:
        columns = max(0, (reach.columns - heatmap.columns.seen.start) / heatmap.columns.block)
        left = min(cells.left() + columns * slot.cell_width, cells.right())
        below = min(top + slot.cell_height, cells.bottom())
        painter.fillRect(QRectF(left, top, cells.right() - left, below - top), QColor(theme.paper))
    right = cells.right() + sums_width(heatmap)
    painter.fillRect(
        QRectF(cells.left(), below, right - cells.left(), cells.bottom() - below),
        QColor(theme.paper),
    )
    sums = QRectF(cells.right() + 1, top, right - cells.right(), cells.bottom() - top)
    painter.fillRect(sums, QColor(theme.paper))
    _paint_grid(painter, slot, int(rows), theme)


def _paint_grid(painter: QPainter, slot: PanelSlot, first: int, theme: Theme) -> None:
    """Draw a grid of empty cells from a row on, if they are large enough."""
    cells = slot.cells
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(cells.adjusted(-1, -1, 0, 0))
    if min(slot.cell_width, slot.cell_height) < SMALLEST_GRID:
        return
    rows, columns = slot.heatmap.values.shape
    top = cells.top() + first * slot.cell_height
    across = [cells.top() + row * slot.cell_height for row in range(first, rows + 1)]
    down = [cells.left() + column * slot.cell_width for column in range(columns + 1)]
    painter.drawLines([QLineF(cells.left(), y, cells.right(), y) for y in across])
    painter.drawLines([QLineF(x, top, x, cells.bottom()) for x in down])


def _paint_lit(painter: QPainter, slot: PanelSlot, lit: HighlightBlock, theme: Theme) -> None:
    heatmap = slot.heatmap
    rows, columns = _common(lit.rows, heatmap.rows.seen), _common(lit.columns, heatmap.columns.seen)
    if not rows or not columns:
        return
    first = slot.cell(rows[0], columns[0])
    area = first.united(slot.cell(rows[-1], columns[-1])).adjusted(-0.5, -0.5, 0.5, 0.5)
    frame(painter, area, MADE if lit.is_made else READ, theme)
    if len(lit.rows) == 1 and slot.has_row_labels:
        light_row_label(painter, slot, lit.rows[0], theme)
    if len(lit.columns) == 1 and len(heatmap.columns.labels) > 1:
        light_column_label(painter, slot, lit.columns[0], theme)


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _underline(painter: QPainter, place: QRectF, theme: Theme) -> None:
    """Underline the number of the step's sentence, visible on every colour."""
    thick = 2.5 * theme.stroke
    line = QRectF(place.left() + 6, place.bottom() - 4.5 - thick, place.width() - 12, thick)
    painter.fillRect(line.adjusted(-1, -1, 1, 1), QColor(theme.paper))
    painter.fillRect(line, QColor(theme.accent))


# --------------------------------------------------------------------------- predictions


def _place(slot: PanelSlot, cell: Cell) -> QRectF | None:
    if not is_seen(slot.heatmap, cell):
        return None
    return slot.cell(*cell.place[-2:])


def _paint_mark(painter: QPainter, slot: PanelSlot, cell: Cell, theme: Theme) -> None:
    """Draw a disc in a marked cell."""
    place = _place(slot, cell)
    if place is None:
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    radius = max(3.0, min(place.width(), place.height(), 28) / 5)
    painter.setPen(QPen(QColor(theme.paper), 1.5))
    painter.setBrush(QColor(theme.accent))
    painter.drawEllipse(place.center(), radius, radius)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_ring(painter: QPainter, slot: PanelSlot, cell: Cell, theme: Theme) -> None:
    place = _place(slot, cell)
    if place is not None:
        frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme)


def _paint_sign(
    painter: QPainter, slot: PanelSlot, cell: Cell, sign: Sign, colour: str, theme: Theme
) -> None:
    """Draw a tick or a cross into a corner of a cell, beside its number."""
    place = _place(slot, cell)
    if place is None:
        return
    frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme, colour)
    size = max(3.0, min(place.width(), place.height(), 28) / 4)
    x, y = place.right() - size, place.top() + size
    lines = [QLineF(x + size * a, y + size * b, x + size * c, y + size * d) for a, b, c, d in sign]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    _outline(painter, lines, colour, theme)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _outline(painter: QPainter, lines: list[QLineF], colour: str, theme: Theme) -> None:
    """Draw lines visible on every colour of a map."""
    for ink, width in ((theme.paper, 5.0), (colour, 2.5)):
        painter.setPen(QPen(QColor(ink), width, c=Qt.PenCapStyle.RoundCap))
        painter.drawLines(lines)
