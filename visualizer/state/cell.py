"""The Cell pane: what is said of the cell that is looked at, whatever is drawn in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.state.compare.words import beside
from visualizer.state.cursor import panel_of
from visualizer.state.folded import folded_readout, lens_line
from visualizer.state.readout import Readout, covered, present_readout
from visualizer.state.screen import PanelId

if TYPE_CHECKING:
    from visualizer.state.panels import Board
    from visualizer.state.resolve import Resolved
    from visualizer.state.view import Cell

CELL: PanelId[Readout | None] = PanelId("Cell")


def present_cell(resolved: Resolved, board: Board, previous: Readout | None) -> Readout | None:
    """Explain the cell under the pointer, or the pinned one, or the one that a step is about."""
    cell = resolved.pointed or resolved.step_cell
    if cell is None:
        return None
    readout = _readout(resolved, board, cell)
    return previous if readout == previous else readout


def _readout(resolved: Resolved, board: Board, cell: Cell) -> Readout | None:
    if cell.stage in resolved.covered:
        return covered(resolved.run, cell)
    explain = folded_readout if cell.fold else present_readout
    readout = explain(resolved, cell, is_pinned=cell == resolved.view.pinned)
    if readout is None:
        return None
    also = (*lens_line(resolved, cell), *beside(resolved, cell))
    heatmap = panel_of(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return replace(readout, also=also)
    block = f"{heatmap.rows.block} × {heatmap.columns.block}"
    which = "farthest from 0" if heatmap.colour.is_signed else "largest"
    return replace(readout, also=also, heading=f"{readout.heading} · {which} of {block} cells")
