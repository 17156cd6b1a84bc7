"""Draws one panel: cells, numbers, marks and labels.

The window and all exported figures use these functions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPolygonF

from visualizer.format import format_number
from visualizer.heatmap import cell_paint, colour_mapping
from visualizer.heatmap.board import IdentityKey
from visualizer.heatmap.panel_colour_scale import out_of_range_masks
from visualizer.heatmap.panel_margins import row_sums_width
from visualizer.heatmap.panel_margins_paint import (
    ALIGN_CENTRE,
    ALIGN_LEFT,
    paint_head_label,
    paint_labels,
    paint_notes,
    paint_own_scale,
    paint_panel_title,
)
from visualizer.widgets.fonts import scaled_font, system_font
from visualizer.widgets.theme import mix_with_background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.widgets.theme import Theme

MIN_NOTCHED_CELL_PX = 8
NOTCH_SHARE, NOTCH_SIZE_LIMITS_PX = 0.22, (2.5, 8.0)
"""Size of the notch in cells beyond the range: share of the cell, and limits in pixels."""
NOTCH_OPACITY, ZERO_OPACITY = 0.7, 0.6
LARGE_CELL_PX = 20
MIN_STRUCK_CELL_PX = 8
"""Minimum side of masked cells that have a line of their own."""
MASK_LINE_SHARE = 0.26
"""Share of a masked cell's line that is drawn on each side of its number."""


def paint_panel(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw a panel and everything that belongs to it, at its position."""
    paint_frame(painter, slot, theme)
    paint_head_label(painter, slot, theme)
    paint_values(painter, slot, theme)
    paint_notes(painter, slot, theme)


def paint_frame(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    """Draw the parts around the cells that depend on neither values nor head."""
    paint_labels(painter, slot, theme)
    paint_panel_title(painter, slot, theme)
    paint_own_scale(painter, slot, theme)


def paint_values(
    painter: QPainter, slot: PanelSlot, theme: Theme, indices: np.ndarray | None = None
) -> None:
    """Draw the cells, their numbers and the row sums.

    Parameters
    ----------
    indices : numpy.ndarray, optional
        The colour index of each cell; by default, the one on the panel's own colour scale.
    """
    if indices is None:
        indices = colour_mapping.colour_indices(slot.heatmap)
    _paint_cells(painter, slot, indices, theme)
    _paint_marks(painter, slot, theme)
    _paint_out_of_range_corners(painter, slot, indices, theme)
    paint_numbers(painter, slot, indices, theme)
    _paint_sums(painter, slot, theme)


def _paint_cells(painter: QPainter, slot: PanelSlot, indices: np.ndarray, theme: Theme) -> None:
    cell_paint.paint_cells(painter, slot.cells, indices, slot.heatmap.colour.map, theme)
    if min(slot.cell_width, slot.cell_height) >= 20:
        painter.setPen(QPen(QColor(theme.paper), 1))
        rows, columns = slot.heatmap.values.shape
        cells = slot.cells
        across = [cells.top() + row * slot.cell_height for row in range(1, rows)]
        down = [cells.left() + column * slot.cell_width for column in range(1, columns)]
        painter.drawLines([QLineF(cells.left(), y, cells.right(), y) for y in across])
        painter.drawLines([QLineF(x, cells.top(), x, cells.bottom()) for x in down])
    cell_paint.paint_outline(painter, slot.cells, theme.hairline)
    if slot.heatmap.is_marked:  # two lines in the ink colour, outside the cells
        for away in (0, 1):
            around = slot.cells.adjusted(-away, -away, away, away)
            cell_paint.paint_outline(painter, around, theme.ink)


def _paint_marks(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    heatmap = slot.heatmap
    if heatmap.forbidden is not None:
        paint_masked_cells(painter, slot, heatmap.forbidden, theme)
    if heatmap.uneven_cells is not None:
        _paint_one_sided_mask(painter, slot, heatmap.uneven_cells, theme)
    if heatmap.dropped is not None and slot.cell_width >= 6:
        painter.setPen(QPen(QColor(theme.border), 1.25 if slot.cell_width >= 20 else 1))
        inset = slot.cell_width * 0.22
        lines = []
        for row, column in np.argwhere(heatmap.dropped):
            left = slot.cells.left() + column * slot.cell_width + inset
            top = slot.cells.top() + row * slot.cell_height + inset
            right, bottom = left + slot.cell_width - 2 * inset, top + slot.cell_height - 2 * inset
            lines += [QLineF(left, top, right, bottom), QLineF(left, bottom, right, top)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.drawLines(lines)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def paint_masked_cells(painter: QPainter, slot: PanelSlot, cells: np.ndarray, theme: Theme) -> None:
    """Tint masked cells and draw a diagonal line in each, so that none looks like a number near 0.

    Cells that are too small for a line of their own share a sparse pattern. The line is interrupted
    at the number −∞ if it is shown.
    """
    areas, ink = merged_cell_areas(slot, cells), mix_with_background(theme.hatch, theme.mask)
    painter.save()
    painter.translate(slot.cells.topLeft())
    # Lines that leave the panel would remain on its pixmap when its values change.
    painter.setClipRect(QRectF(QPointF(), slot.cells.size()), Qt.ClipOperation.IntersectClip)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.mask))
    painter.drawRects(areas)
    if min(slot.cell_width, slot.cell_height) >= MIN_STRUCK_CELL_PX:
        painter.setPen(QPen(QColor(ink), 1))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.drawLines(list(_mask_lines(slot, cells)))
    else:
        cell_paint.paint_hatching(painter, areas, QPointF(), ink)
    painter.restore()


def _mask_lines(slot: PanelSlot, cells: np.ndarray) -> Iterator[QLineF]:
    """Yield the lines of masked cells, which rise to the right, relative to the panel."""
    width, height = slot.cell_width, slot.cell_height
    has_numbers = slot.numbers is not None
    for row, column in np.argwhere(cells).tolist():
        left, bottom = column * width + 1, (row + 1) * height - 1  # no pixel outside the cell
        line = QLineF(left, bottom, left + width - 2, bottom - height + 2)
        if has_numbers and slot.heatmap.values[row, column] == -math.inf:
            yield QLineF(line.p1(), line.pointAt(MASK_LINE_SHARE))
            yield QLineF(line.pointAt(1 - MASK_LINE_SHARE), line.p2())
        else:
            yield line


def merged_cell_areas(slot: PanelSlot, cells: np.ndarray) -> list[QRectF]:
    """Return the areas of cells within a panel, in which adjacent cells of a row are merged."""
    return [*_merged_cell_areas(IdentityKey(cells), slot.cell_width, slot.cell_height)]


@lru_cache(maxsize=64)
def _merged_cell_areas(
    cells: IdentityKey[np.ndarray], width: float, height: float
) -> tuple[QRectF, ...]:
    """Return the areas of cells; cached, because panels mark the same cells repeatedly."""
    rows, starts, ends = cell_paint.find_run_edges(cells.held)
    lefts, tops = starts * width, rows * height
    sizes = ((ends - starts) * width).tolist()
    return tuple(map(QRectF, lefts.tolist(), tops.tolist(), sizes, [height] * len(sizes)))


def _paint_one_sided_mask(
    painter: QPainter, slot: PanelSlot, uneven: np.ndarray, theme: Theme
) -> None:
    """Hatch cells that only one side forbids; only along the bottom if numbers are readable."""
    share = 0.25 if slot.cell_height >= LARGE_CELL_PX else 1
    feet = [
        area.adjusted(0, (1 - share) * area.height(), 0, 0)
        for area in merged_cell_areas(slot, uneven)
    ]
    cell_paint.paint_hatching(painter, feet, slot.cells.topLeft(), theme.border)


def _paint_out_of_range_corners(
    painter: QPainter, slot: PanelSlot, indices: np.ndarray, theme: Theme
) -> None:
    """Cut the upper corner of cells above the range, and the lower corner of cells below it."""
    heatmap, side = slot.heatmap, min(slot.cell_width, slot.cell_height)
    if side < MIN_NOTCHED_CELL_PX:
        return
    found = out_of_range_masks(heatmap.values, heatmap.cell_masks, heatmap.colour)
    if found is None:
        return
    least, most = NOTCH_SIZE_LIMITS_PX
    size, gap = min(max(NOTCH_SHARE * side, least), most), 1 if side >= LARGE_CELL_PX else 0
    light = colour_mapping.dark_text_mask(slot.heatmap.colour.map, theme)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setOpacity(NOTCH_OPACITY)
    for cells, way in zip(found, (-1, 1), strict=True):
        for row, column in np.argwhere(cells).tolist():
            right = slot.cells.left() + (column + 1) * slot.cell_width
            edge = slot.cells.top() + (row + (way < 0)) * slot.cell_height + (way > 0) * gap
            painter.setBrush(QColor("#000000" if light[indices[row, column]] else "#FFFFFF"))
            corners = ((right - size, edge), (right, edge), (right, edge + way * size))
            painter.drawPolygon(QPolygonF([QPointF(*corner) for corner in corners]))
    painter.setOpacity(1)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def paint_numbers(painter: QPainter, slot: PanelSlot, indices: np.ndarray, theme: Theme) -> None:
    """Write the numbers of cells in a text colour that is readable on the cell's colour."""
    heatmap, numbers = slot.heatmap, slot.numbers
    if numbers is None:
        return
    painter.setFont(_numbers_font(numbers.pixel_size, system_font()))
    light = colour_mapping.dark_text_mask(heatmap.colour.map, theme)
    inks = {True: QColor("#000000"), False: QColor("#FFFFFF"), None: QColor(theme.quiet)}
    highlights: list[bool] = light.tolist()
    present: object = None
    for row, (values, entries) in enumerate(
        zip(heatmap.values.tolist(), indices.tolist(), strict=True)
    ):
        for column, (value, index) in enumerate(zip(values, entries, strict=True)):
            is_blank = index >= colour_mapping.DROPPED
            if is_blank and value != -math.inf:  # shown by the mark
                continue
            ink, text = None if is_blank else highlights[index], numbers.format_value(value)
            is_zero = heatmap.is_share and not text.strip("0.")
            if (ink, is_zero) != present:
                painter.setPen(inks[ink])
                painter.setOpacity(ZERO_OPACITY if is_zero else 1)
                present = ink, is_zero
            cell = QRectF(
                slot.cells.left() + column * slot.cell_width,
                slot.cells.top() + row * slot.cell_height,
                slot.cell_width,
                slot.cell_height,
            )
            painter.drawText(cell, ALIGN_CENTRE, "0" if is_zero else text)
    painter.setOpacity(1)


@lru_cache(maxsize=16)
def _numbers_font(pixel_size: int, font: QFont) -> QFont:
    made = scaled_font(12)
    made.setPixelSize(pixel_size)
    return made


def _paint_sums(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
    sums = slot.heatmap.sums
    if sums is None:
        return
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    line = QFontMetricsF(painter.font()).height()
    left, width = slot.cells.right() + 6, row_sums_width(slot.heatmap)
    painter.drawText(QRectF(left, slot.cells.top() - line - 2, width, line), ALIGN_LEFT, "row sum")
    step = max(1, math.ceil(line / slot.cell_height))
    for row in range(0, len(sums), step):
        top = slot.cells.top() + row * slot.cell_height
        height = max(slot.cell_height, line)
        painter.drawText(
            QRectF(left, top, width, height), ALIGN_LEFT, f"Σ {format_number(float(sums[row]), 2)}"
        )
