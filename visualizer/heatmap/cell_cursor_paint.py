"""Paints the cursor over a panel: the row and column, their labels, and the cell."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from visualizer.heatmap import panel_margins_paint
from visualizer.heatmap.cell_lookup import shows_cell
from visualizer.session.token_selection import group_adjacent_tokens
from visualizer.session.zoom_ranges import row_token_role
from visualizer.widgets.fonts import font_metrics, scaled_font

if TYPE_CHECKING:
    from visualizer.heatmap.board import Heatmap, HeatmapAxis
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

MAX_LABELS = 12
MIN_INNER_FRAME_PX = 9
"""Minimum width and height, in pixels, of an area with a frame on its edges."""


def paint_cursor(painter: QPainter, slot: PanelSlot, cursor: CellCursor, theme: Theme) -> None:
    """Paint the cursor over a panel."""
    heatmap, cells = slot.heatmap, slot.cells
    if heatmap.is_unlinked:
        return
    _paint_selected_tokens(painter, slot, cursor, theme)
    row = cursor.key if row_token_role(heatmap.stage) == "key" else cursor.query
    column = _highlighted_column(heatmap, cursor)
    if row is not None and row in heatmap.rows.visible_range:
        band = slot.cell_area(row, 0)
        paint_frame(
            painter, QRectF(cells.left(), band.top(), cells.width(), band.height()), 1, theme
        )
        if slot.has_row_labels:
            highlight_row_label(painter, slot, row, theme)
    if column is not None and column in heatmap.columns.visible_range:
        band = slot.cell_area(0, column)
        paint_frame(
            painter, QRectF(band.left(), cells.top(), band.width(), cells.height()), 1, theme
        )
        highlight_column_label(painter, slot, column, theme)
    for cell, width in ((cursor.hovered, 1.5), (cursor.pinned, 3)):
        if cell and is_cell_visible(heatmap, cell):
            place = slot.cell_area(*cell.place[-2:]).adjusted(-0.5, -0.5, 0.5, 0.5)
            paint_frame(painter, place, width, theme)


def _paint_selected_tokens(
    painter: QPainter, slot: PanelSlot, cursor: CellCursor, theme: Theme
) -> None:
    """Highlight the rows and columns of selected tokens, and merge adjacent ones into bands."""
    if not cursor.queries and not cursor.keys:
        return
    heatmap, cells = slot.heatmap, slot.cells
    rows = cursor.keys if row_token_role(heatmap.stage) == "key" else cursor.queries
    columns = cursor.keys if heatmap.columns.name == "key" else frozenset[int]()
    bands = []
    for top, bottom in _token_bands(rows, heatmap.rows, slot.cell_height):
        bands.append(QRectF(cells.left(), cells.top() + top, cells.width(), bottom - top))
    for left, right in _token_bands(columns, heatmap.columns, slot.cell_width):
        bands.append(QRectF(cells.left() + left, cells.top(), right - left, cells.height()))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for ink, thickness in ((theme.paper, 3.5), (theme.accent, 1.5)):
        painter.setPen(QPen(QColor(ink), thickness))
        painter.drawRects(bands)
    lit_row = cursor.key if row_token_role(heatmap.stage) == "key" else cursor.query
    rows, columns = (
        _tokens_to_label(rows, heatmap.rows.visible_range),
        _tokens_to_label(columns, heatmap.columns.visible_range),
    )
    if slot.has_row_labels:
        for row in _drop_touching_labels(rows, lit_row, slot.cell_height / heatmap.rows.block):
            highlight_row_label(painter, slot, row, theme)
    for column in _drop_touching_labels(
        columns, cursor.key, slot.cell_width / heatmap.columns.block
    ):
        highlight_column_label(painter, slot, column, theme)


def _token_bands(
    tokens: frozenset[int], axis: HeatmapAxis, pitch: float
) -> list[tuple[float, float]]:
    """Return the edges of the cells that contain tokens, merged into bands if they touch."""
    drawn = _cell_ranges_of_tokens(tokens, axis.visible_range, axis.block)
    return [(cells.start * pitch, cells.stop * pitch) for cells in drawn]


@lru_cache(maxsize=16)
def _cell_ranges_of_tokens(tokens: frozenset[int], seen: range, block: int) -> tuple[range, ...]:
    """Return the drawn cells that contain tokens; cached, because there may be many tokens."""
    start = seen.start
    return group_adjacent_tokens({(token - start) // block for token in tokens if token in seen})


@lru_cache(maxsize=16)
def _tokens_to_label(tokens: frozenset[int], seen: range) -> frozenset[int]:
    """Return the visible tokens, or none if there are too many to label any."""
    found = [*islice((token for token in tokens if token in seen), MAX_LABELS + 1)]
    return frozenset(found if len(found) <= MAX_LABELS else ())


def _drop_touching_labels(tokens: frozenset[int], lit: int | None, pitch: float) -> list[int]:
    """Return the tokens with labels that touch no other label, or none if there are too many."""
    found: list[int] = []
    line = font_metrics(12).height()
    for token in sorted(tokens) if len(tokens) <= MAX_LABELS else ():
        others = [*found[-1:], *([] if lit is None else [lit])]
        if all(abs(token - other) * pitch >= line for other in others):
            found.append(token)
    return found


def is_cell_visible(heatmap: Heatmap, cell: Cell) -> bool:
    """Return whether a cell is drawn in a panel."""
    row, column = cell.place[-2:]
    return (
        shows_cell(heatmap, cell)
        and row in heatmap.rows.visible_range
        and column in heatmap.columns.visible_range
    )


def _highlighted_column(heatmap: Heatmap, cursor: CellCursor) -> int | None:
    if heatmap.columns.name == "key":
        return cursor.key
    return cursor.column[1] if cursor.column and cursor.column[0] == heatmap.stage else None


def paint_frame(
    painter: QPainter, area: QRectF, width: float, theme: Theme, colour: str = ""
) -> None:
    """Draw a frame that is visible on every colour: the accent, edged with the paper colour.

    A frame of a thin area is outside the area, whose colour it would hide otherwise.
    """
    painter.setBrush(Qt.BrushStyle.NoBrush)
    width *= theme.stroke
    across, down = (
        (width / 2 + 1) * (side < MIN_INNER_FRAME_PX) for side in (area.width(), area.height())
    )
    area = area.adjusted(-across, -down, across, down)
    for ink, thickness in ((theme.paper, width + 2), (colour or theme.accent, width)):
        painter.setPen(QPen(QColor(ink), thickness))
        painter.drawRect(area)


def highlight_row_label(painter: QPainter, slot: PanelSlot, row: int, theme: Theme) -> None:
    """Draw a row's label in the accent colour, over labels that it would touch."""
    lit = panel_margins_paint.row_label_box(slot, row)
    size = panel_margins_paint.label_font_size(slot.heatmap.rows, slot.cell_height)
    line = panel_margins_paint.space_per_label(slot.heatmap.rows, slot.cell_height)
    shown = panel_margins_paint.visible_labels(slot.heatmap.rows, slot.cell_height)
    for at in _neighbouring_labels(slot.heatmap.rows, shown, row, slot.cell_height, line):
        # Otherwise, the other label would protrude from under the highlighted one.
        box = panel_margins_paint.row_label_box(slot, at)
        painter.fillRect(box.adjusted(0, 0, 4, 0), QColor(theme.paper))
    spare = max(0.0, lit.height() - max(line, slot.cell_height)) / 2
    text = panel_margins_paint.elide_label(slot.heatmap.rows.labels[row], slot.longest, size)
    bold = scaled_font(size, QFont.Weight.DemiBold)
    wider = QFontMetricsF(bold).horizontalAdvance(text) + 1 - lit.width()
    lit.adjust(min(0.0, -wider), 0, 0, 0)  # a bold label may be wider than the room
    painter.fillRect(lit.adjusted(0, spare, 4, -spare), QColor(theme.paper))
    painter.setFont(bold)
    painter.setPen(QColor(theme.accent))
    painter.drawText(lit, panel_margins_paint.ALIGN_RIGHT, text)


def highlight_column_label(painter: QPainter, slot: PanelSlot, column: int, theme: Theme) -> None:
    """Draw a column's label in the accent colour, over labels that it would touch."""
    if not slot.has_column_labels:
        return
    axis = slot.heatmap.columns
    upright = panel_margins_paint.are_labels_vertical(slot)
    size = panel_margins_paint.label_font_size(axis, slot.cell_width)
    around = panel_margins_paint.space_per_label(axis, slot.cell_width) if axis.is_token else 24
    if panel_margins_paint.shows_positions(axis, slot.cell_width):
        around = panel_margins_paint.column_label_width(axis, slot.cell_width)
    lit = _column_label_box(slot, column, around)
    shown = panel_margins_paint.visible_column_labels(slot) if axis.is_token else []
    for at in _neighbouring_labels(axis, shown, column, slot.cell_width, around):
        painter.fillRect(_column_label_box(slot, at, around), QColor(theme.paper))
    painter.fillRect(lit, QColor(theme.paper))
    painter.setFont(scaled_font(size, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.accent))
    label = axis.labels[column]
    panel_margins_paint.paint_column_label(painter, slot, column, label, size, upright)


def _neighbouring_labels(
    axis: HeatmapAxis, shown: list[tuple[int, str]], lit: int, pitch: float, room: float
) -> list[int]:
    """Return the other visible labels within `room` pixels of a highlighted label."""
    here = axis.cell_index_of(lit)
    return [
        at for at, _ in shown if at != lit and abs(axis.cell_index_of(at) - here) * pitch < room
    ]


def _column_label_box(slot: PanelSlot, column: int, around: float) -> QRectF:
    band = slot.cell_area(0, column)
    width = max(band.width(), around)
    left = band.center().x() - width / 2
    height = slot.column_labels_height
    return QRectF(left, slot.cells.top() - height + 2, width, height - 4)
