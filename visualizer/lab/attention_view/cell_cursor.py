"""The hovered or pinned cell in the attention of a language model, and its description."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.format import format_share, shorten
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.heatmap.panel_cells import is_of, moved_cursor
from visualizer.language.tokenizers import visible

if TYPE_CHECKING:
    from visualizer.heatmap.board import Board, Heatmap
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.session.cell_address import Cell


class LabCellPointer(Struct, frozen=True):
    """The hovered and the pinned cell."""

    hovered: Cell | None = None
    pinned: Cell | None = None

    def hover(self, cell: Cell | None) -> LabCellPointer:
        return replace(self, hovered=cell)

    def pin(self, cell: Cell | None) -> LabCellPointer:
        """Pin a cell, or unpin it if it is pinned."""
        return replace(self, pinned=None if cell == self.pinned else cell)

    def walk(self, board: Board, down: int, right: int) -> LabCellPointer:
        """Move the pinned cell, across edges into the next layer or head, or pin the first cell."""
        return LabCellPointer(pinned=moved_cursor(board, self.pinned, down, right))


def cell_cursor_of(result: ProbeResult, board: Board, pointing: LabCellPointer) -> CellCursor:
    """Return the cursor in all panels; cells that the current text lacks are omitted."""
    hovered, pinned = (
        strongest_cell(result, board, cell) if cell and _panel_of(board, cell) else None
        for cell in (pointing.hovered, pointing.pinned)
    )
    cell = hovered or pinned
    return CellCursor(hovered, pinned, cell.place[-2], cell.place[-1]) if cell else CellCursor()


def _panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Find the panel of a cell, if the panel contains the cell."""
    row, column = cell.place[-2:]
    return next(
        (
            panel
            for panel in board.heatmaps
            if is_of(panel, cell) and row in panel.rows.seen and column in panel.columns.seen
        ),
        None,
    )


def cell_index_of(board: Board, cell: Cell) -> tuple[int, int] | None:
    """Return a cell's layer and head, counted from 0."""
    panel = _panel_of(board, cell)
    if panel is None or panel.layer is None or panel.head is None:
        return None
    return panel.layer, panel.head


def strongest_cell(result: ProbeResult, board: Board, cell: Cell) -> Cell:
    """Return the cell with the maximum weight of the pooled block that a cell belongs to."""
    panel, weights = _panel_of(board, cell), result.weights
    if panel is None or weights is None or not panel.is_pooled:
        return cell
    row, column = cell.place[-2:]
    rows, columns = (axis.block for axis in (panel.rows, panel.columns))
    top, left = row // rows * rows, column // columns * columns
    block = weights[panel.layer, panel.head, top : top + rows, left : left + columns]
    down, right = divmod(int(np.argmax(block)), block.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def cell_sentence(result: ProbeResult, board: Board, cell: Cell) -> str:
    """Describe how much a query attends to a key; empty if the cell does not exist."""
    panel = _panel_of(board, cell)
    if panel is None or result.weights is None:
        return ""
    query, key = cell.place[-2:]
    one, other = (f"“{_token_label(result, at)}” ({at + 1})" for at in (query, key))
    where = f"layer {(panel.layer or 0) + 1}, head {(panel.head or 0) + 1}"
    drawn = panel.rows.cell(query), panel.columns.cell(key)
    if panel.forbidden is not None and panel.forbidden[drawn]:
        return f"query {one} cannot attend to {other}, which comes later; {where}"
    weight = float(result.weights[panel.layer or 0, panel.head or 0, query, key])
    if not math.isfinite(weight):
        return f"query {one} has no valid weights (NaN); {where}"
    return f"weight {format_share(weight)} from query {one} to {other}, {where}"


def _token_label(result: ProbeResult, at: int) -> str:
    return shorten(visible(result.tokens[at]))
