"""The one cursor: which cell is pointed at or pinned, what lights up with it, where it can walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.heatmaps import Board, Heatmap
    from visualizer.state.view import View

from visualizer.state.chosen import Role
from visualizer.state.view import Cell, existing

# The token that a row stands for: of these stages the key that is read, else the query.
_ROLES = {"keys": "key", "values": "key"}


@dataclass(frozen=True, slots=True)
class Cursor:
    """The cell under the pointer, or the pinned one, and all that lights up with it.

    Parameters
    ----------
    query, key : int or None
        Which tokens light up, in every panel and in the token strip.
    column : tuple of (stage, int) or None
        Which column of a panel whose columns are no tokens.
    queries, keys : frozenset of int
        Tokens that were chosen together in the token strip, as the one or as the other.
    """

    hovered: Cell | None = None
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    column: tuple[str, int] | None = None
    queries: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()


def present_cursor(run: Run, view: View) -> Cursor:
    """Say what lights up with the cell under the pointer, or else with the pinned one."""
    hovered, pinned = (existing(run, cell) for cell in (view.hovered, view.pinned))
    cell = hovered or pinned
    chosen = frozenset(at for at in view.tokens.chosen if at < run.trace.tokens)
    if cell is None:
        return _with_chosen(Cursor(), view.tokens.role, chosen)
    stage = run.trace.stage(cell.stage)
    place = dict(zip(stage.dims, cell.place, strict=True))
    tokens = {row_role(stage.name): place["token"]} if "token" in place else place
    column = None if stage.dims[-1] == "key" else (stage.name, cell.place[-1])
    cursor = Cursor(hovered, pinned, tokens.get("query"), tokens.get("key"), column)
    return _with_chosen(cursor, view.tokens.role, chosen)


def _with_chosen(cursor: Cursor, role: Role, chosen: frozenset[int]) -> Cursor:
    if role is Role.QUERY:
        return replace(cursor, queries=chosen)
    return replace(cursor, keys=chosen)


def row_role(stage: str) -> str:
    """Name the token that a stage's rows stand for: the query, or the key that is read."""
    return _ROLES.get(stage, "query")


def panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Find the panel that a cell is drawn in, if its stage is shown."""
    head = cell.place[0] if len(cell.place) == 3 else None
    for heatmap in board.heatmaps:
        if heatmap.stage == cell.stage and heatmap.head == head:
            return heatmap
    return None


def drawn(run: Run, view: View, board: Board, cell: Cell) -> Cell:
    """Give the cell whose number a pooled cell shows: the largest of its block."""
    heatmap = panel_of(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return cell
    return largest_near(run, view.text, cell, (heatmap.rows.block, heatmap.columns.block))


def largest_near(run: Run, text: int, cell: Cell, blocks: tuple[int, int]) -> Cell:
    """Give the largest cell of the block of rows and columns that a cell is in."""
    top, left = (at // block * block for at, block in zip(cell.place[-2:], blocks, strict=True))
    block = (slice(top, top + blocks[0]), slice(left, left + blocks[1]))
    numbers = run.trace.read(cell.stage, (*run.index(text), *cell.place[:-2], *block))
    largest = int(numbers.argmax())  # what is no number counts as the largest, as in pooling
    down, right = divmod(largest, numbers.shape[1])
    return Cell(cell.stage, (*cell.place[:-2], top + down, left + right))


def walked(board: Board, cell: Cell | None, down: int, right: int) -> Cell | None:
    """Go one drawn cell down or right; over an edge into the next head or stage.

    From nowhere, or from a panel that is not shown, to the first cell of the first panel.
    """
    heatmap = panel_of(board, cell) if cell else None
    if cell is None or heatmap is None:
        return _at(board.heatmaps[0], 0, 0) if board.heatmaps else None
    across = next(at for at, column in enumerate(board.columns) if heatmap in column)
    along = board.columns[across].index(heatmap)
    row = cell.place[-2] // heatmap.rows.block + down
    column = cell.place[-1] // heatmap.columns.block + right
    rows, columns = heatmap.values.shape
    if not 0 <= row < rows:
        along += down
        row = 0 if down > 0 else rows - 1
    if not 0 <= column < columns:
        across += right
        along = min(along, len(board.columns[across % len(board.columns)]) - 1)
        column = 0 if right > 0 else -1
    if not (0 <= across < len(board.columns) and 0 <= along < len(board.columns[across])):
        return cell
    return _at(board.columns[across][along], row, column)


def _at(heatmap: Heatmap, row: int, column: int) -> Cell:
    """Name a drawn cell of a panel; a column of −1 is the last one."""
    head = () if heatmap.head is None else (heatmap.head,)
    column %= heatmap.values.shape[1]
    return Cell(heatmap.stage, (*head, row * heatmap.rows.block, column * heatmap.columns.block))
