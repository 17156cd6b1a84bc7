"""The whole picture of the board as one value: panels, cursor and step highlights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.heatmap import board as heatmap_board
from visualizer.heatmap.comparison_board import present_compared
from visualizer.heatmap.cursor import CellCursor, present_cursor
from visualizer.heatmap.model import Board
from visualizer.heatmap.step_highlights import Highlights, present_lights, with_pointed
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.session.resolved_view import Resolved


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """The panels, and what is lit in them.

    Parameters
    ----------
    lights : Lights
        Of the present step or prediction, or else of the cell that is pointed at.
    message : str
        What stands in place of the panels while there are none.
    board_key, step_key : hashable
        What the board was made of, and what the lights of the step.
    step_lights : Lights
        Those of the step or prediction alone.
    """

    board: Board = field(default_factory=Board)
    cursor: CellCursor = field(default_factory=CellCursor)
    lights: Highlights = field(default_factory=Highlights)
    message: str = ""
    board_key: Hashable = None
    step_key: Hashable = None
    step_lights: Highlights = field(default_factory=Highlights)


PICTURE: PanelId[Picture] = PanelId("Board")


def present_picture(resolved: Resolved, previous: Picture | None = None) -> Picture:
    """Show the panels; those that did not change are the very same objects.

    Where nothing changed that panels are made of, as while the pointer moves, none is looked at.
    """
    previous = previous or Picture()
    board_key, step_key = _board_key(resolved), resolved.step_key
    board, step_lights = previous.board, previous.step_lights
    if board_key != previous.board_key:
        board = _same(present_compared(resolved, board), board)
    if step_key != previous.step_key:
        step_lights = present_lights(resolved)
    lights = with_pointed(resolved, step_lights)
    return Picture(
        board,
        present_cursor(resolved),
        previous.lights if lights == previous.lights else lights,
        "",
        board_key,
        step_key,
        step_lights,
    )


def needs(resolved: Resolved) -> Hashable:
    """Name what has to be read for the picture."""
    return heatmap_board.needs(resolved), id(resolved.comparison) if resolved.comparison else None


def warm(resolved: Resolved, previous: Picture | None) -> Picture:
    """Make the picture on the worker, and read what may be pointed at in it."""
    made = present_picture(resolved, previous)
    heatmap_board.warm(resolved)
    return made


def _board_key(resolved: Resolved) -> Hashable:
    """Name all that the panels depend on: not where the pointer is."""
    view, overview, pinned = resolved.view, resolved.overview, resolved.pinned
    return (
        resolved.run,
        resolved.text,
        resolved.stages,
        resolved.heads,
        resolved.folds,
        resolved.zoom,
        resolved.comparison,
        (view.room, view.lens, view.colouring),
        (overview, resolved.overview_head) if overview else None,
        (resolved.is_spread, pinned.head if resolved.is_spread and pinned else None),
    )


def _same(board: Board, previous: Board) -> Board:
    return previous if _parts(board) == _parts(previous) else board


def _parts(board: Board) -> tuple[object, ...]:
    return board.columns, board.overview, board.zoom, board.text
