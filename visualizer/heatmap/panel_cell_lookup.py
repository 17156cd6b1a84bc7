"""Find the panel that shows a cell, and the cell at a position in a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.session.cell_address import Cell
from visualizer.session.compared_tensors import tensor_of

if TYPE_CHECKING:
    from visualizer.attention.tensor_with_cached_reductions import CachedTensor
    from visualizer.heatmap.panel_and_board_types import Board, Heatmap
    from visualizer.session.resolved_view import Resolved


def panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Return the panel in which a cell is drawn, if any; its own panel is preferred."""
    shown = filter(board.is_current, board.heatmaps)
    found = [heatmap for heatmap in shown if is_of(heatmap, cell)]
    own = [heatmap for heatmap in found if is_own(heatmap, cell)]
    return next(iter((*own, *found)), None)


def is_of(heatmap: Heatmap, cell: Cell) -> bool:
    """Whether a panel shows a cell: its own, or one that it is compared with."""
    source = (cell.stage, cell.head, cell.fold)
    own = (heatmap.stage, heatmap.head, heatmap.fold)
    return not heatmap.is_alone and (source == own or source in heatmap.kin)


def is_own(heatmap: Heatmap, cell: Cell) -> bool:
    """Whether a cell belongs to a panel."""
    return not heatmap.is_alone and cell_of(heatmap, *cell.place[-2:]) == cell


def cell_of(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return the cell of a panel at a row and column of its stage."""
    head = () if heatmap.head is None else (heatmap.head,)
    return Cell(heatmap.stage, (*head, row, column), heatmap.fold, heatmap.part)


def shown_cell(resolved: Resolved, board: Board, cell: Cell) -> Cell:
    """Return the cell whose value a pooled cell shows: the largest magnitude in its block."""
    heatmap = panel_of(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return cell
    return largest_near(resolved, cell, (heatmap.rows.block, heatmap.columns.block))


def largest_near(resolved: Resolved, cell: Cell, blocks: tuple[int, int]) -> Cell:
    """Return the cell with the largest magnitude in the block around a cell."""
    top, left = (at // block * block for at, block in zip(cell.place[-2:], blocks, strict=True))
    block = (slice(top, top + blocks[0]), slice(left, left + blocks[1]))
    held, index = tensor_of(resolved, cell)
    if held.is_blockwise:
        return _largest_drawn(held, index, cell, blocks, (top, left))
    numbers = held.read((*index, *block))
    down, right = divmod(farthest(numbers), numbers.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def _largest_drawn(
    held: CachedTensor,
    index: tuple[int, ...],
    cell: Cell,
    blocks: tuple[int, int],
    corner: tuple[int, int],
) -> Cell:
    """Return the cell with the largest magnitude in the rows of a block drawn so far.

    Before any row is drawn, the middle row is used.
    """
    rows = held.rows_drawn(*blocks, (*index, corner[0] // blocks[0]))
    columns = slice(corner[1], corner[1] + blocks[1])
    part = slice(rows.start, rows.stop)
    numbers = held.read((*index, part, columns))
    down, right = divmod(farthest(numbers), numbers.shape[1])
    return replace(cell, place=(*cell.place[:-2], rows[down], corner[1] + right))


def farthest(numbers: np.ndarray) -> int:
    """Return the flat index of the value that a pooled cell shows.

    NaN counts as the largest magnitude; −∞ counts only if there is no other value.
    """
    sizes = np.where(numbers == -np.inf, -1, np.abs(numbers))
    if np.isnan(sizes).any():
        return int(np.isnan(sizes).argmax())
    at_end = np.flatnonzero(sizes == sizes.max())
    positive = at_end[numbers.ravel()[at_end] >= 0]
    return int(positive[0] if len(positive) else at_end[0])
