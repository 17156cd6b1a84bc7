"""Bars mark the result and the inputs of a step without covering the colours of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QRectF, QSizeF
from PySide6.QtGui import QColor, QImage, QPainter

from tests.support.hand_made_panels import a_heatmap
from tests.support.image_pixels import rgb_of
from visualizer.heatmap import panel_paint
from visualizer.heatmap.board import Board
from visualizer.heatmap.highlight_paint import MIN_CELL_WITH_GAP_PX, paint_highlights
from visualizer.heatmap.highlights import HighlightBlock, Highlights
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import PanelSlot

pytestmark = pytest.mark.usefixtures("application")

ROWS, COLUMNS = 9, 7
WHOLE = (range(ROWS), range(COLUMNS))


def painted(slot: PanelSlot, blocks: tuple[HighlightBlock, ...], theme: Theme) -> np.ndarray:
    whole = slot.whole_area.adjusted(0, 0, 40, 40)
    image = QImage(round(whole.right()), round(whole.bottom()), QImage.Format.Format_RGB32)
    image.fill(QColor(theme.paper))
    painter = QPainter(image)
    panel_paint.paint_panel(painter, slot, theme)
    paint_highlights(painter, slot, Highlights(blocks=blocks), theme)
    painter.end()
    return rgb_of(image)


def a_slot(side: float) -> PanelSlot:
    heatmap = a_heatmap(np.random.default_rng(3).random((ROWS, COLUMNS), np.float32))
    slot = lay_out_board(Board(((heatmap,),)), 2000, 2000, 1).slots[0]
    cells = QRectF(slot.cells.topLeft(), QSizeF(COLUMNS * side, ROWS * side))
    return replace(slot, cells=cells, cell_width=side, cell_height=side)


def changed(side: float, rows: range, columns: range, is_made: bool, theme: Theme) -> np.ndarray:
    """Return which pixels a block changes; the first pixel is the corner of the panel's cells."""
    slot = a_slot(side)
    heatmap = slot.heatmap
    block = HighlightBlock(heatmap.stage, heatmap.head, rows, columns, is_made)
    is_new = painted(slot, (block,), theme) != painted(slot, (), theme)
    left, top = round(slot.cells.left()), round(slot.cells.top())
    return np.roll(is_new, (-top, -left), axis=(0, 1))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("side", [8, 14, 24, 40])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (range(4, 5), WHOLE[1]),
        (range(1), WHOLE[1]),
        (range(ROWS - 1, ROWS), WHOLE[1]),
        (range(2, 6), WHOLE[1]),
        (WHOLE[0], range(3, 4)),
        WHOLE,
    ],
)
def test_bars_are_next_to_rows_and_columns_and_cover_no_cell(
    rows: range, columns: range, side: int, is_made: bool, theme: Theme
) -> None:
    is_new = changed(side, rows, columns, is_made, theme)
    gap = 1 if side >= MIN_CELL_WITH_GAP_PX else 0
    for row in range(ROWS):
        for column in range(COLUMNS):
            cell = is_new[row * side + gap : (row + 1) * side, column * side + gap :][
                :, : side - gap
            ]
            assert not cell.any(), (row, column)
    middle = (rows.start + rows.stop) * side // 2, (columns.start + columns.stop) * side // 2
    if columns == WHOLE[1]:
        assert is_new[middle[0], COLUMNS * side + 2]
        assert is_new[middle[0], -2]
    if rows == WHOLE[0]:
        assert is_new[-2, middle[1]]
        assert is_new[ROWS * side + 2, middle[1]]
        if columns != WHOLE[1]:
            assert not is_new[-3, : columns.start * side - 1].any()


@pytest.mark.parametrize("side", [8, 24])
def test_the_frame_of_one_cell_is_around_it(side: int) -> None:
    is_new = changed(side, range(4, 5), range(3, 4), True, LIGHT)
    gap = 1 if side >= MIN_CELL_WITH_GAP_PX else 0
    top, left = 4 * side + gap, 3 * side + gap
    assert not is_new[top : 5 * side, left : 4 * side].any()
    for point in ((top - 1, left), (5 * side, left), (top, left - 1), (top, 4 * side)):
        assert is_new[point]


def test_bars_next_to_computed_cells_are_wider() -> None:
    for rows, columns in ((range(4, 5), WHOLE[1]), WHOLE, (range(4, 5), range(2, 3))):
        made, read = (changed(24, rows, columns, is_made, LIGHT).sum() for is_made in (True, False))
        assert made > read
