"""Paints marks over a panel: cells of a playback step, predictions, and pending mask changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap import panel_margins_paint
from visualizer.heatmap.cell_cursor_paint import (
    highlight_column_label,
    highlight_row_label,
    is_cell_visible,
    paint_frame,
)
from visualizer.heatmap.panel_margins import row_sums_width
from visualizer.heatmap.panel_paint import MIN_STRUCK_CELL_PX, merged_cell_areas, paint_masked_cells
from visualizer.widgets.fonts import scaled_font, text_scale

if TYPE_CHECKING:
    from visualizer.heatmap.board import MaskChangedCells
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.highlights import ComputedExtent, HighlightBlock, Highlights
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

SymbolStrokes = tuple[tuple[float, float, float, float], ...]
TICK_STROKES: SymbolStrokes = ((-0.9, 0.0, -0.2, 0.6), (-0.2, 0.6, 0.6, -0.6))
CROSS_STROKES: SymbolStrokes = ((-0.6, -0.6, 0.5, 0.5), (-0.6, 0.5, 0.5, -0.6))


def paint_prediction_marks(
    painter: QPainter, slot: PanelSlot, highlights: Highlights, theme: Theme
) -> None:
    """Paint the marked cells and, once the stage is revealed, which of them are correct."""
    if highlights.verdict is None:
        for cell in highlights.marks:
            _paint_mark(painter, slot, cell, theme)
    else:
        for cell in highlights.verdict.wrong_cells:
            _paint_verdict_sign(painter, slot, cell, CROSS_STROKES, theme.warning, theme)
        for cell in highlights.verdict.missed_cells:
            _paint_missed_cell(painter, slot, cell, theme)
        for cell in highlights.verdict.right:
            _paint_verdict_sign(painter, slot, cell, TICK_STROKES, theme.accent, theme)


def visible_cell_box(slot: PanelSlot, cell: Cell) -> QRectF | None:
    """Return the rectangle of a cell in a panel, or None if it is not visible."""
    if not is_cell_visible(slot.heatmap, cell):
        return None
    return slot.cell_area(*cell.place[-2:])


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


def _paint_missed_cell(painter: QPainter, slot: PanelSlot, cell: Cell, theme: Theme) -> None:
    place = visible_cell_box(slot, cell)
    if place is not None:
        paint_frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme)


def _paint_verdict_sign(
    painter: QPainter, slot: PanelSlot, cell: Cell, sign: SymbolStrokes, colour: str, theme: Theme
) -> None:
    """Draw a tick or a cross in a corner of a cell, next to its number."""
    place = visible_cell_box(slot, cell)
    if place is None:
        return
    paint_frame(painter, place.adjusted(0.5, 0.5, -0.5, -0.5), 2.5, theme, colour)
    size = max(3.0, min(place.width(), place.height(), 28) / 4)
    x, y = place.right() - size, place.top() + size
    lines = [QLineF(x + size * a, y + size * b, x + size * c, y + size * d) for a, b, c, d in sign]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    _draw_outlined_lines(painter, lines, colour, theme)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _draw_outlined_lines(painter: QPainter, lines: list[QLineF], colour: str, theme: Theme) -> None:
    """Draw lines that are visible on every colour."""
    for ink, width in ((theme.paper, 5.0), (colour, 2.5)):
        painter.setPen(QPen(QColor(ink), width, c=Qt.PenCapStyle.RoundCap))
        painter.drawLines(lines)


MIN_GRID_CELL_PX = 8
MIN_UNDERLINED_CELL_PX = 20
MIN_CELL_WITH_GAP_PX = 20
"""Minimum size in pixels of cells that are separated by a gap."""
QUESTION_PX = 20
"""Size of the question mark on a covered panel."""
COMPUTED_WIDTH, INPUT_WIDTH = 3.0, 1.5
"""Frame widths of computed cells and of inputs."""
BAR_EXTRA_WIDTH_PX = 1.5
"""Additional width of bars next to rows or columns, compared with frames."""


def paint_highlights(
    painter: QPainter, slot: PanelSlot, highlights: Highlights, theme: Theme
) -> None:
    """Cover the hidden part of a panel, and highlight computed cells and inputs."""
    stage = slot.heatmap.stage
    if stage in highlights.hidden_stages:
        _cover_panel(painter, slot, theme, is_marked=stage in {at.stage for at in highlights.marks})
    for reach in highlights.computed_extents:
        if reach.stage == stage:
            _blank_uncomputed_cells(painter, slot, reach, theme)
    lit = [block for block in highlights.blocks if is_block_shown(slot, block)]
    for block in lit:
        _paint_highlighted_labels(painter, slot, block, theme)
    for block in lit:  # over the label background
        _frame_block(painter, slot, block, theme)
    if (
        highlights.leading
        and len(highlights.blocks[0].rows) * len(highlights.blocks[0].columns) > 1
    ):
        place = visible_cell_box(slot, highlights.leading)
        if place is not None and min(place.width(), place.height()) >= MIN_UNDERLINED_CELL_PX:
            _paint_underline(painter, place, theme)
    paint_prediction_marks(painter, slot, highlights, theme)


def _cover_panel(painter: QPainter, slot: PanelSlot, theme: Theme, *, is_marked: bool) -> None:
    """Cover a panel; no line of its grid crosses the "?" in the middle."""
    area = slot.cells.adjusted(0, 0, row_sums_width(slot.heatmap), 0)
    painter.fillRect(area, QColor(theme.paper))
    _paint_grid(painter, slot, 0, theme)
    if is_marked:
        return
    painter.setFont(scaled_font(QUESTION_PX))
    painter.setPen(QColor(theme.quiet))
    side = 1.5 * QUESTION_PX * text_scale()
    middle = QRectF(0, 0, min(side, slot.cells.width() - 2), min(side, slot.cells.height() - 2))
    middle.moveCenter(slot.cells.center())
    painter.fillRect(middle, QColor(theme.paper))
    painter.drawText(slot.cells, panel_margins_paint.ALIGN_CENTRE, "?")


def uncomputed_areas(slot: PanelSlot, reach: ComputedExtent) -> tuple[QRectF, ...]:
    """Return the areas that are not computed yet: the rest of a row, and all rows after it."""
    cells, heatmap = slot.cells, slot.heatmap
    rows = _computed_rows(slot, reach)
    if rows >= heatmap.values.shape[0]:
        return ()
    top = cells.top() + rows * slot.cell_height
    rest = QRectF()
    below = top
    if reach.columns and reach.rows in heatmap.rows.visible_range:
        columns = max(
            0, (reach.columns - heatmap.columns.visible_range.start) / heatmap.columns.block
        )
        left = min(cells.left() + columns * slot.cell_width, cells.right())
        below = min(top + slot.cell_height, cells.bottom())
        rest = QRectF(left, top, cells.right() - left, below - top)
    return rest, QRectF(cells.left(), below, cells.width(), cells.bottom() - below)


def _computed_rows(slot: PanelSlot, reach: ComputedExtent) -> float:
    """Return how many drawn rows are computed."""
    axis = slot.heatmap.rows
    return max(0, (reach.rows - axis.visible_range.start) / axis.block)


def _blank_uncomputed_cells(
    painter: QPainter, slot: PanelSlot, reach: ComputedExtent, theme: Theme
) -> None:
    """Blank the cells that are not computed yet, and their row sums."""
    areas, cells = uncomputed_areas(slot, reach), slot.cells
    if not areas:
        return
    for area in areas:
        painter.fillRect(area, QColor(theme.paper))
    rows = _computed_rows(slot, reach)
    top, sums = cells.top() + rows * slot.cell_height, row_sums_width(slot.heatmap)
    painter.fillRect(
        QRectF(cells.right() + 1, top, sums, cells.bottom() - top), QColor(theme.paper)
    )
    _paint_grid(painter, slot, int(rows), theme)


def _paint_grid(painter: QPainter, slot: PanelSlot, first: int, theme: Theme) -> None:
    """Draw a grid of empty cells starting at a row, if the cells are large enough."""
    cells = slot.cells
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(cells.adjusted(-1, -1, 0, 0))
    if min(slot.cell_width, slot.cell_height) < MIN_GRID_CELL_PX:
        return
    rows, columns = slot.heatmap.values.shape
    top = cells.top() + first * slot.cell_height
    across = [cells.top() + row * slot.cell_height for row in range(first, rows + 1)]
    down = [cells.left() + column * slot.cell_width for column in range(columns + 1)]
    painter.drawLines([QLineF(cells.left(), y, cells.right(), y) for y in across])
    painter.drawLines([QLineF(x, top, x, cells.bottom()) for x in down])


def is_block_shown(slot: PanelSlot, block: HighlightBlock) -> bool:
    """Return whether a panel shows the values of a block."""
    heatmap = slot.heatmap
    is_own = block.stage == heatmap.stage and block.head == heatmap.head
    return is_own and not heatmap.fold and not heatmap.is_unlinked


def visible_block_area(slot: PanelSlot, block: HighlightBlock) -> QRectF | None:
    """Return the rectangle of a block in a panel, or None if none of its cells is visible."""
    rows = _intersect_ranges(block.rows, slot.heatmap.rows.visible_range)
    columns = _intersect_ranges(block.columns, slot.heatmap.columns.visible_range)
    if not rows or not columns:
        return None
    return slot.cell_area(rows[0], columns[0]).united(slot.cell_area(rows[-1], columns[-1]))


def _paint_highlighted_labels(
    painter: QPainter, slot: PanelSlot, block: HighlightBlock, theme: Theme
) -> None:
    if visible_block_area(slot, block) is None:
        return
    if len(block.rows) == 1 and slot.has_row_labels:
        highlight_row_label(painter, slot, block.rows[0], theme)
    if len(block.columns) == 1 and len(slot.heatmap.columns.labels) > 1:
        highlight_column_label(painter, slot, block.columns[0], theme)


def _frame_block(painter: QPainter, slot: PanelSlot, block: HighlightBlock, theme: Theme) -> None:
    """Frame a block; if it spans the panel, draw bars outside the panel instead.

    Between two rows, the line is as thin as the gap between them, so that no colour is covered.
    Only the frame of a block inside a panel covers the edges of neighbouring cells.
    """
    area = visible_block_area(slot, block)
    if area is None:
        return
    has_gaps = min(slot.cell_width, slot.cell_height) >= MIN_CELL_WITH_GAP_PX
    width = (COMPUTED_WIDTH if block.is_result else INPUT_WIDTH) * theme.stroke
    is_wide = area.width() > slot.cells.width() - 0.5
    is_high = area.height() > slot.cells.height() - 0.5
    if is_wide or is_high:
        beside = width if is_wide and is_high else width + BAR_EXTRA_WIDTH_PX * theme.stroke
        above, below, left, right = _frame_edges(area.adjusted(-1, -1, 1, 1), beside)
        if not is_wide:  # without corners
            above, below = (bar.adjusted(beside, 0, -beside, 0) for bar in (above, below))
        bars = [*((left, right) if is_wide else ()), *((above, below) if is_high else ())]
        if has_gaps and not (is_wide and is_high):
            above, below, left, right = _frame_edges(area.adjusted(1, 1, 0, 0), 1)
            bars += (above, below) if is_wide else (left, right)
    else:
        inner = area.adjusted(1, 1, 0, 0) if has_gaps else area
        for edge in _frame_edges(inner, width + 1):
            painter.fillRect(edge, QColor(theme.paper))
        bars = [*_frame_edges(inner, width)]
    for bar in bars:
        painter.fillRect(bar, QColor(theme.accent))


def _frame_edges(area: QRectF, width: float) -> tuple[QRectF, QRectF, QRectF, QRectF]:
    """Return the top, bottom, left and right edges of a frame; the corners are in the first two."""
    left, top, right, bottom = area.left(), area.top(), area.right(), area.bottom()
    across = right - left + 2 * width
    return (
        QRectF(left - width, top - width, across, width),
        QRectF(left - width, bottom, across, width),
        QRectF(left - width, top, width, bottom - top),
        QRectF(right, top, width, bottom - top),
    )


def _intersect_ranges(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _paint_underline(painter: QPainter, place: QRectF, theme: Theme) -> None:
    """Underline the number to which the step's explanation refers, visibly on every colour."""
    thickness = 2.5 * theme.stroke
    line = QRectF(place.left() + 6, place.bottom() - 4.5 - thickness, place.width() - 12, thickness)
    painter.fillRect(line.adjusted(-1, -1, 1, 1), QColor(theme.paper))
    painter.fillRect(line, QColor(theme.accent))


def paint_mask_changes(
    painter: QPainter, slot: PanelSlot, fresh: MaskChangedCells, theme: Theme
) -> None:
    """Mark newly masked cells and blank newly allowed ones; fill tiny cells with the accent."""
    if fresh.forbidden.shape != slot.heatmap.values.shape:
        return  # belongs to a pending board of a different size
    is_tiny = min(slot.cell_width, slot.cell_height) < MIN_STRUCK_CELL_PX
    painter.save()
    if not is_tiny:
        paint_masked_cells(painter, slot, fresh.forbidden, theme)
    painter.translate(slot.cells.topLeft())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.accent if is_tiny else theme.paper))
    for cells in (fresh.forbidden, fresh.allowed) if is_tiny else (fresh.allowed,):
        painter.drawRects(merged_cell_areas(slot, cells))
    painter.restore()
