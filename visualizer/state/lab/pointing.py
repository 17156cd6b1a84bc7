"""Where a hand points in the attention of a language model, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.tokenizers import visible
from visualizer.state.cursor import Cursor, is_of, walked
from visualizer.state.words import share, shortened

if TYPE_CHECKING:
    from visualizer.state.lab.reading import Reading
    from visualizer.state.panels import Board, Heatmap
    from visualizer.state.view import Cell


@dataclass(frozen=True, slots=True)
class Pointing:
    """The cell under the pointer, and the one that is pinned."""

    hovered: Cell | None = None
    pinned: Cell | None = None

    def hover(self, cell: Cell | None) -> Pointing:
        """Look at the cell under the pointer."""
        return replace(self, hovered=cell)

    def pin(self, cell: Cell | None) -> Pointing:
        """Hold on to a cell; a second time lets go of it."""
        return replace(self, pinned=None if cell == self.pinned else cell)

    def walk(self, board: Board, down: int, right: int) -> Pointing:
        """Move the pinned cell, over an edge into the next layer or head, or pin the first."""
        return Pointing(pinned=walked(board, self.pinned, down, right))


def cursor_of(reading: Reading, board: Board, pointing: Pointing) -> Cursor:
    """Say what lights up, in all panels: of another text, a cell may not be there any more."""
    hovered, pinned = (
        strongest(reading, board, cell) if cell and _panel_of(board, cell) else None
        for cell in (pointing.hovered, pointing.pinned)
    )
    cell = hovered or pinned
    return Cursor(hovered, pinned, cell.place[-2], cell.place[-1]) if cell else Cursor()


def _panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Find the panel of a cell of its own, if it has that cell."""
    row, column = cell.place[-2:]
    return next(
        (
            panel
            for panel in board.heatmaps
            if is_of(panel, cell) and row in panel.rows.seen and column in panel.columns.seen
        ),
        None,
    )


def place_of(board: Board, cell: Cell) -> tuple[int, int] | None:
    """Give the layer and head that a cell is of, counted from 0."""
    panel = _panel_of(board, cell)
    if panel is None or panel.layer is None or panel.head is None:
        return None
    return panel.layer, panel.head


def strongest(reading: Reading, board: Board, cell: Cell) -> Cell:
    """Give the cell whose weight a drawn one shows: of a pooled one, the largest of its block."""
    panel, weights = _panel_of(board, cell), reading.weights
    if panel is None or weights is None or not panel.is_pooled:
        return cell
    row, column = cell.place[-2:]
    rows, columns = (axis.block for axis in (panel.rows, panel.columns))
    top, left = row // rows * rows, column // columns * columns
    block = weights[panel.layer, panel.head, top : top + rows, left : left + columns]
    down, right = divmod(int(np.argmax(block)), block.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def sentence(reading: Reading, board: Board, cell: Cell) -> str:
    """Say in plain words how much a query reads from a key; nothing where there is no such cell."""
    panel = _panel_of(board, cell)
    if panel is None or reading.weights is None:
        return ""
    query, key = cell.place[-2:]
    one, other = (f"“{_word(reading, at)}” ({at + 1})" for at in (query, key))
    where = f"layer {(panel.layer or 0) + 1} head {(panel.head or 0) + 1}"
    drawn = panel.rows.cell(query), panel.columns.cell(key)
    if panel.forbidden is not None and panel.forbidden[drawn]:
        return f"query {one} may not read {other}: it comes later, {where}"
    weight = float(reading.weights[panel.layer or 0, panel.head or 0, query, key])
    if not math.isfinite(weight):
        return f"query {one} has no weights: they are no numbers any more, {where}"
    return f"query {one} reads {share(weight)} from {other}, {where}"


def _word(reading: Reading, at: int) -> str:
    return shortened(visible(reading.tokens[at]))
