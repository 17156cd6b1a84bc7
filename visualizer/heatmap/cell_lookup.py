"""Finds cells of panels by position, by arrow-key movement and by magnitude."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.masks import MaskingSpec, blocks_with_allowed_cells
from visualizer.heatmap.board import Board
from visualizer.session.cell_address import Cell
from visualizer.session.comparison import find_tensor_of_cell

if TYPE_CHECKING:
    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.explanations.cell_terms import Factor
    from visualizer.heatmap.board import Heatmap
    from visualizer.session.resolved_view import PoolingExtent, ResolvedView


def panel_of_cell(board: Board, cell: Cell) -> Heatmap | None:
    """Return the panel in which a cell is drawn, if any; its own panel is preferred."""
    shown = filter(board.is_current, board.heatmaps)
    found = [heatmap for heatmap in shown if shows_cell(heatmap, cell)]
    own = [heatmap for heatmap in found if belongs_to_panel(heatmap, cell)]
    return next(iter((*own, *found)), None)


def shows_cell(heatmap: Heatmap, cell: Cell) -> bool:
    """Return whether a panel shows a cell: its own, or one of a panel highlighted with it."""
    source = (cell.stage, cell.head, cell.fold)
    own = (heatmap.stage, heatmap.head, heatmap.fold)
    return not heatmap.is_unlinked and (source == own or source in heatmap.linked_panels)


def belongs_to_panel(heatmap: Heatmap, cell: Cell) -> bool:
    """Return whether a cell belongs to a panel."""
    return not heatmap.is_unlinked and cell_at(heatmap, *cell.place[-2:]) == cell


def cell_at(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return the cell of a panel at a row and column of its stage."""
    head = () if heatmap.head is None else (heatmap.head,)
    return Cell(heatmap.stage, (*head, row, column), heatmap.fold, heatmap.part)


def source_cell(
    trace: Trace, leading: LeadingIndex, stage: str, factor: Factor, term: int
) -> Cell | None:
    """Return the cell from which a stage's factor was read, or None for parameters and inputs."""
    if factor.name not in trace or factor.name == stage:
        return None
    source, count = factor.source_index(term), len(trace.axes)
    layer = trace.axis_position("layer", source[:count])
    is_other = layer != trace.axis_position("layer", leading)
    return Cell(factor.name, source[count:], layer=layer if is_other else None)


def displayed_cell(resolved: ResolvedView, board: Board, cell: Cell) -> Cell:
    """Return the cell that a pooled cell shows: the one with the largest magnitude in its block."""
    heatmap = panel_of_cell(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return cell
    return largest_cell_in_block(resolved, cell, (heatmap.rows.block, heatmap.columns.block))


def largest_cell_in_block(resolved: ResolvedView, cell: Cell, blocks: tuple[int, int]) -> Cell:
    """Return the cell with the largest magnitude in the block around a cell."""
    top, left = (at // block * block for at, block in zip(cell.place[-2:], blocks, strict=True))
    block = (slice(top, top + blocks[0]), slice(left, left + blocks[1]))
    tensor, index = find_tensor_of_cell(resolved, cell)
    if tensor.is_blockwise:
        return _largest_drawn_cell(tensor, index, cell, blocks, (top, left))
    numbers = tensor.read((*index, *block))
    down, right = divmod(index_of_largest(numbers), numbers.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def _largest_drawn_cell(
    tensor: CachedTensor,
    index: tuple[int, ...],
    cell: Cell,
    blocks: tuple[int, int],
    corner: tuple[int, int],
) -> Cell:
    """Return the cell with the largest magnitude in the rows of a block that are drawn so far.

    Before any row is drawn, the middle row is used.
    """
    rows = tensor.rows_represented(*blocks, (*index, corner[0] // blocks[0]))
    columns = slice(corner[1], corner[1] + blocks[1])
    part = slice(rows.start, rows.stop)
    numbers = tensor.read((*index, part, columns))
    down, right = divmod(index_of_largest(numbers), numbers.shape[1])
    return replace(cell, place=(*cell.place[:-2], rows[down], corner[1] + right))


def index_of_largest(numbers: np.ndarray) -> int:
    """Return the flat index of the value that a pooled cell shows.

    NaN counts as the largest magnitude; −∞ counts only if all values are −∞.
    """
    sizes = np.where(numbers == -np.inf, -1, np.abs(numbers))
    if np.isnan(sizes).any():
        return int(np.isnan(sizes).argmax())
    at_end = np.flatnonzero(sizes == sizes.max())
    positive = at_end[numbers.ravel()[at_end] >= 0]
    return int(positive[0] if len(positive) else at_end[0])


def any_in_blocks(cells: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return, for each block of `rows` × `columns` cells, whether any of its cells is True."""
    if (rows, columns) != (1, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[0], rows), axis=0)
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[1], columns), axis=1)
    return cells


@lru_cache(maxsize=8)
def masked_cells(
    masking: MaskingSpec, sides: tuple[int, int], text: int, extent: PoolingExtent
) -> np.ndarray:
    """Return the drawn cells that contain only forbidden pairs, as an array shared by all panels.

    Parameters
    ----------
    sides : tuple of int
        The number of queries and the number of keys.
    """
    return np.ascontiguousarray(
        ~blocks_with_allowed_cells(masking, sides, text, extent.blocks, extent.drawn_slices)
    )


def move_cursor(
    board: Board, cell: Cell | None, down: int, right: int, asked: frozenset[str] = frozenset()
) -> Cell | None:
    """Move down or right by drawn cells, and across panel edges into the next head or stage.

    Without a cell, or from a panel that is not shown, go to the first visible cell of the stage to
    predict, or else of the first panel.
    """
    together = (column for column in board.columns if not column[0].is_unlinked)
    board = Board(tuple(tuple(filter(board.is_current, column)) for column in together))
    heatmap = panel_of_cell(board, cell) if cell else None
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
    return _first_cell_of_block(board.columns[across][along], row, column)


def _first_visible_cell(heatmap: Heatmap) -> Cell:
    """Return the first visible cell of a panel."""
    return _first_cell_of_block(
        heatmap, heatmap.rows.visible_range[0], heatmap.columns.visible_range[0]
    )


def _first_cell_of_block(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return the first cell of a drawn cell's block; −1 is the last row or column."""
    rows, columns = heatmap.rows, heatmap.columns
    row %= len(rows.labels)
    column %= len(columns.labels)
    first = (row // rows.block * rows.block, column // columns.block * columns.block)
    return cell_at(heatmap, *first)
