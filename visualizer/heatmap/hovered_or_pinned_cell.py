"""The cell cursor: the hovered or pinned cell, what lights up with it, and where keys move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.heatmap.panel_and_board_types import Board
from visualizer.session.cell_address import Cell
from visualizer.session.compared_tensors import tensor_of
from visualizer.session.token_selection_and_search import TokenRole
from visualizer.session.zoom_ranges import row_role

if TYPE_CHECKING:
    from visualizer.heatmap.panel_and_board_types import Heatmap
    from visualizer.session.resolved_view import Resolved


@dataclass(frozen=True, slots=True)
class CellCursor:
    """The hovered or pinned cell, and all that is highlighted with it.

    Parameters
    ----------
    query, key : int or None
        The tokens highlighted in every panel and in the token strip.
    column : tuple of (stage, int) or None
        The highlighted column of a stage whose columns are not tokens.
    queries, keys : frozenset of int
        Tokens selected together in the token strip, as queries or as keys.
    """

    hovered: Cell | None = None
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    column: tuple[str, int] | None = None
    queries: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()


def present_cursor(resolved: Resolved) -> CellCursor:
    """Return the cursor of the hovered cell, else of the pinned one."""
    return cursor_on(resolved, resolved.reached_hovered, resolved.reached_pinned)


def cursor_on(resolved: Resolved, hovered: Cell | None, pinned: Cell | None) -> CellCursor:
    """Return the cursor of the hovered cell, else of the pinned one; each in this run or None."""
    cell, tokens_chosen = hovered or pinned, resolved.view.tokens
    count = resolved.run.trace.sides[tokens_chosen.role is TokenRole.KEY]
    chosen = frozenset(at for at in tokens_chosen.chosen if at < count)
    if cell is None:
        return _with_chosen(CellCursor(), tokens_chosen.role, chosen)
    stage = resolved.run.trace.stage(cell.stage)
    place = dict(zip(stage.dims[-len(cell.place) :], cell.place, strict=True))
    tokens = {row_role(stage.name): place["token"]} if "token" in place else place
    column = None if stage.dims[-1] == "key" else (stage.name, cell.place[-1])
    cursor = CellCursor(hovered, pinned, tokens.get("query"), tokens.get("key"), column)
    return _with_chosen(cursor, tokens_chosen.role, chosen)


def _with_chosen(cursor: CellCursor, role: TokenRole, chosen: frozenset[int]) -> CellCursor:
    if role is TokenRole.QUERY:
        return replace(cursor, queries=chosen)
    return replace(cursor, keys=chosen)


def panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Find the panel in which a cell is drawn, if any; its own one first."""
    shown = filter(board.is_current, board.heatmaps)
    found = [heatmap for heatmap in shown if is_of(heatmap, cell)]
    own = [heatmap for heatmap in found if is_own(heatmap, cell)]
    return next(iter((*own, *found)), None)


def is_of(heatmap: Heatmap, cell: Cell) -> bool:
    """Whether a panel shows a cell: its own, or one that it is compared with."""
    whose = (cell.stage, cell.head, cell.fold)
    own = (heatmap.stage, heatmap.head, heatmap.fold)
    return not heatmap.is_alone and (whose == own or whose in heatmap.kin)


def is_own(heatmap: Heatmap, cell: Cell) -> bool:
    """Whether a cell belongs to a panel."""
    return not heatmap.is_alone and cell_of(heatmap, *cell.place[-2:]) == cell


def cell_of(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return the cell of a panel at a row and column of its stage."""
    head = () if heatmap.head is None else (heatmap.head,)
    return Cell(heatmap.stage, (*head, row, column), heatmap.fold, heatmap.part)


def shown_cell(resolved: Resolved, board: Board, cell: Cell) -> Cell:
    """Return the cell whose number a pooled cell shows: the farthest from 0 in its block."""
    heatmap = panel_of(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return cell
    return largest_near(resolved, cell, (heatmap.rows.block, heatmap.columns.block))


def largest_near(resolved: Resolved, cell: Cell, blocks: tuple[int, int]) -> Cell:
    """Return the cell farthest from 0 in the block around a cell."""
    top, left = (at // block * block for at, block in zip(cell.place[-2:], blocks, strict=True))
    block = (slice(top, top + blocks[0]), slice(left, left + blocks[1]))
    held, index = tensor_of(resolved, cell)
    numbers = held.read((*index, *block))
    down, right = divmod(farthest(numbers), numbers.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def farthest(numbers: np.ndarray) -> int:
    """Return the flat index of the number that a pooled cell shows.

    NaN counts as the farthest from 0; −∞ counts only where nothing else is there.
    """
    sizes = np.where(numbers == -np.inf, -1, np.abs(numbers))
    if np.isnan(sizes).any():
        return int(np.isnan(sizes).argmax())
    at_end = np.flatnonzero(sizes == sizes.max())
    positive = at_end[numbers.ravel()[at_end] >= 0]
    return int(positive[0] if len(positive) else at_end[0])


def moved_cursor(
    board: Board,
    cell: Cell | None,
    down: int,
    right: int,
    asked: frozenset[str] = frozenset(),
) -> Cell | None:
    """Move by drawn cells down or right, across edges into the next head or stage.

    Without a cell, or from a panel that is not shown, go to the first visible cell: of the stages
    to predict, else of the first panel.
    """
    together = (column for column in board.columns if not column[0].is_alone)
    board = Board(tuple(tuple(filter(board.is_current, column)) for column in together))
    heatmap = panel_of(board, cell) if cell else None
    if cell is None or heatmap is None:
        of_asked = [panel for panel in board.heatmaps if panel.stage in asked]
        return next(map(_first, (*of_asked, *board.heatmaps)), None)
    row = cell.place[-2] + down * heatmap.rows.block
    column = cell.place[-1] + right * heatmap.columns.block
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
    return _at(board.columns[across][along], row, column)


def _first(heatmap: Heatmap) -> Cell:
    """Return the first visible cell of a panel."""
    return _at(heatmap, heatmap.rows.seen[0], heatmap.columns.seen[0])


def _at(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Return a cell of a panel, the first of its block; −1 is the last row or column."""
    rows, columns = heatmap.rows, heatmap.columns
    row %= len(rows.labels)
    column %= len(columns.labels)
    first = (row // rows.block * rows.block, column // columns.block * columns.block)
    return cell_of(heatmap, *first)
