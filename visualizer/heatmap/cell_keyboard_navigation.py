"""Move from cell to cell with the arrow keys, across panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.heatmap.panel_and_board_types import Board
from visualizer.heatmap.panel_cell_lookup import cell_of, panel_of

if TYPE_CHECKING:
    from visualizer.heatmap.panel_and_board_types import Heatmap
    from visualizer.session.cell_address import Cell


def moved_cursor(
    board: Board,
    cell: Cell | None,
    down: int,
    right: int,
    asked: frozenset[str] = frozenset(),
) -> Cell | None:
    """Move by drawn cells down or right, across panel edges into the next head or stage.

    Without a cell, or from a panel that is not shown, go to the first visible cell of a stage to
    predict, otherwise of the first panel.
    """
    together = (column for column in board.columns if not column[0].is_alone)
    board = Board(tuple(tuple(filter(board.is_current, column)) for column in together))
    heatmap = panel_of(board, cell) if cell else None
    if cell is None or heatmap is None:
        of_asked = [panel for panel in board.heatmaps if panel.stage in asked]
        return next(map(_first_visible_cell, (*of_asked, *board.heatmaps)), None)
    # Start from the first cell of the block: the last block may be smaller, and would be skipped.
    row = (cell.place[-2] // heatmap.rows.block + down) * heatmap.rows.block
    column = (cell.place[-1] // heatmap.columns.block + right) * heatmap.columns.block
    across = next(at for at, panels in enumerate(board.columns) if heatmap in panels)
    along = board.columns[across].index(heatmap)
    if not 0 <= row < len(heatmap.rows.labels):
        along += down
        row = 0 if down > 0 else -1
    if not 0 <= column < len(heatmap.columns.labels):
        across += right
        along = min(along, len(board.columns[across % len(board.columns)]) - 1)
        column = 0 if right > 0 else -1
    if not (0 <= across < len(board.columns) and 0 <= along < len(board.columns[across])):
        return cell
    return _cell_at(board.columns[across][along], row, column)


def _first_visible_cell(heatmap: Heatmap) -> Cell:
    """Return the first visible cell of a panel."""
    return _cell_at(heatmap, heatmap.rows.seen[0], heatmap.columns.seen[0])


def _cell_at(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return a cell of a panel, the first of its block; −1 is the last row or column."""
    rows, columns = heatmap.rows, heatmap.columns
    row %= len(rows.labels)
    column %= len(columns.labels)
    first = (row // rows.block * rows.block, column // columns.block * columns.block)
    return cell_of(heatmap, *first)
