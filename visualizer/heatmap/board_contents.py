"""What the board shows, as one value: panels, cursor and step highlights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.heatmap import board_presenter as heatmap_board
from visualizer.heatmap.comparison_board_presenter import present_compared
from visualizer.heatmap.hovered_or_pinned_cell import CellCursor, present_cursor
from visualizer.heatmap.panel_and_board_types import Board
from visualizer.heatmap.step_highlights import Highlights, present_highlights, with_pointed
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.session.resolved_view import Resolved


@dataclass(frozen=True, slots=True, eq=False)
class BoardContents:
    """The panels, the cursor and the highlights.

    Parameters
    ----------
    highlights : Highlights
        Those of the present step or prediction, else of the hovered or pinned cell.
    message : str
        Text shown while there are no panels.
    board_key, step_key : hashable
        Cache keys of the board and of the step's highlights.
    step_highlights : Highlights
        Those of the step or prediction alone.
    """

    board: Board = field(default_factory=Board)
    cursor: CellCursor = field(default_factory=CellCursor)
    highlights: Highlights = field(default_factory=Highlights)
    message: str = ""
    board_key: Hashable = None
    step_key: Hashable = None
    step_lights: Highlights = field(default_factory=Highlights)


BOARD_CONTENTS: PanelId[BoardContents] = PanelId("Board")


def present_board_contents(
    resolved: Resolved, previous: BoardContents | None = None
) -> BoardContents:
    """Present the panels; unchanged ones are the same objects.

    If no input of the panels has changed, as while the pointer moves, the board is reused.
    """
    previous = previous or BoardContents()
    board_key, step_key = _board_key(resolved), resolved.step_key
    board, step_highlights = previous.board, previous.step_lights
    if board_key != previous.board_key:
        present = present_compared if resolved.comparison else heatmap_board.present_board
        board = _same(present(resolved, board), board)
    if step_key != previous.step_key:
        step_highlights = present_highlights(resolved)
    highlights = with_pointed(resolved, step_highlights)
    return BoardContents(
        board,
        present_cursor(resolved),
        previous.highlights if highlights == previous.highlights else highlights,
        "",
        board_key,
        step_key,
        step_highlights,
    )


def needs(resolved: Resolved) -> Hashable:
    """Return the tensors that the picture reads."""
    return heatmap_board.needs(resolved), id(resolved.comparison) if resolved.comparison else None


def warm(resolved: Resolved, previous: BoardContents | None) -> BoardContents:
    """Make the picture on the worker, and read what hovering may need."""
    made = present_board_contents(resolved, previous)
    heatmap_board.warm(resolved)
    return made


def _board_key(resolved: Resolved) -> Hashable:
    """Return the cache key of the panels: all inputs but the pointer."""
    view, overview, pinned = resolved.view, resolved.overview, resolved.pinned
    return (
        resolved.run,
        resolved.leading,
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
    return board.columns, board.overview, board.zoom, board.current
