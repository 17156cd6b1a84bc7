"""Computes the layout of the panels of all layers and heads, which are as large as possible.

Shared parts are drawn only once: key labels above the first layer, query labels next to the first
head, and the colour bar above all panels. Notes about a panel are above the panel. Panels shrink
until all layers fit; if they would become too small to read, the board scrolls instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QRectF

from visualizer.heatmap.board_layout import (
    BoardLayout,
    PanelSlot,
    TitlePlacement,
    with_number_formats,
)
from visualizer.heatmap.panel_margins import (
    HEAD_HEIGHT_PX,
    MAX_LABEL_PX,
    column_label_height,
    footer_height,
    layer_notes_height,
    min_column_header_width,
    widest_label_width,
)
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from visualizer.heatmap.board import Board

MAX_CELL_PX = 88
MIN_SIDE_PX = 130
MARGIN, GAP = 16, 16
MAX_NOTE_LINES, NAME_GAP_PX = 2, 6
ROUNDING_PX = 1e-6
"""Tolerance for rounding errors in sums of lengths, in device pixels."""
MIN_PATTERN_SIDE_PX = 64
"""Minimum side length, in pixels, of a panel at which a pattern is visible."""


def cells_per_side(board: Board, width: float, height: float, pixel_ratio: float) -> int:
    """Return the number of cells along the side of a panel, one per device pixel.

    The result depends on the size of the view and on the number of panels, not on the pooling.
    """
    side = 0.0
    if board.columns:
        placing = LayerLayoutBuilder(board, width, height, pixel_ratio, math.inf)
        placing.notes = MAX_NOTE_LINES * 16 * text_scale()
        label = min(widest_label_width(placing.first.columns.labels), MAX_LABEL_PX * text_scale())
        side = min(placing.share, placing.panel_side(len(board.columns[0]), label))
    return int(max(MIN_SIDE_PX, side) * pixel_ratio) // 8 * 8


def lay_out_layers(
    board: Board,
    width: float,
    height: float,
    pixel_ratio: float = 1.0,
    largest_cell: float = math.inf,
) -> BoardLayout:
    """Lay out the panels of a board in a view of the given size and device pixel ratio."""
    if not board.columns:
        return BoardLayout((), 0, 0, 0)
    layout = LayerLayoutBuilder(board, width, height, pixel_ratio, largest_cell).create_layout()
    return replace(layout, room=cells_per_side(board, width, height, pixel_ratio))


class LayerLayoutBuilder:
    """Computes the layout of a board."""

    def __init__(
        self, board: Board, width: float, height: float, pixel_ratio: float, largest_cell: float
    ) -> None:
        self.columns, self.pixel_ratio, self.height = board.columns, pixel_ratio, height
        self.scale, first = text_scale(), board.columns[0][0]
        self.first, self.rows = first, first.side[0]
        self.max_cell = min(MAX_CELL_PX * self.scale, largest_cell)
        widest = min(widest_label_width(first.rows.labels), MAX_LABEL_PX * self.scale)
        self.gutter = max(64 * self.scale, widest + 14)
        # The label of the first row may be higher than the row, but must not touch the layer name.
        self.notes = (
            max(layer_notes_height(one) for one in board.heatmaps) + NAME_GAP_PX * self.scale
        )
        self.minimum_value = max(min_column_header_width(one) for one in board.heatmaps)
        self.share = (width - self.gutter - 2 * MARGIN + GAP) / len(board.columns) - GAP - 8

    def panel_side(self, layers: int, label: float) -> float:
        """Return the side length of a panel at which this number of layers fits into the view."""
        free = self.height - HEAD_HEIGHT_PX * self.scale - label - 8 * self.scale
        return free / layers - self.notes - footer_height(self.first)

    def _column_label_height(self, cell: float) -> float:
        columns = self.first.columns
        longest = MAX_LABEL_PX * self.scale
        return column_label_height(
            widest_label_width(columns.labels), columns.is_token, cell, longest
        )

    def largest_cell_size(self) -> float:
        """Return the largest cell size in whole device pixels with which the most layers fit."""
        ratio = self.pixel_ratio
        largest = max(1, int(self.max_cell * ratio))
        least = min(
            largest, max(1, math.ceil(MIN_PATTERN_SIDE_PX * self.scale / self.rows * ratio))
        )
        most = max(least, min(largest, int(self.share / self.rows * ratio)))
        for layers in range(len(self.columns[0]), 0, -1):
            for pixels in range(most, least - 1, -1):
                cell = pixels / ratio
                if self.rows * cell <= self.panel_side(layers, self._column_label_height(cell)):
                    return cell
        return least / ratio

    def create_layout(self) -> BoardLayout:
        cell = self.largest_cell_size()
        # Highlighted labels are bold, so they are longer.
        above = self._column_label_height(cell) + 8 * self.scale
        step = max(self.rows * cell + 8, self.minimum_value) + GAP
        bottom, slots = HEAD_HEIGHT_PX * self.scale, []
        for layer in range(len(self.columns[0])):
            top = self.notes + above * (layer == 0)
            for at, column in enumerate(self.columns):
                left = self._round_up_to_pixel(MARGIN + self.gutter + at * step)
                cells = QRectF(
                    left, self._round_up_to_pixel(bottom + top), *(2 * [self.rows * cell])
                )
                slots.append(PanelSlot(
                    column[layer], cells, cell, cell, top, self.gutter, at == 0,
                    has_column_labels=layer == 0,
                    head_at=(-self.gutter, -top - 2 * self.scale) if at == 0 else None,
                    title=TitlePlacement.PINNED if layer == 0 else TitlePlacement.NONE,
                ))  # fmt: skip
            bottom = slots[-1].whole_area.bottom()
        right = max(slot.whole_area.right() for slot in slots) + MARGIN
        return BoardLayout(with_number_formats(slots), right, bottom, HEAD_HEIGHT_PX * self.scale)

    def _round_up_to_pixel(self, length: float) -> float:
        return math.ceil(length * self.pixel_ratio - ROUNDING_PX) / self.pixel_ratio
