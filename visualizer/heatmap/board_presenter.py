"""Presents the board's contents: panels of the visible stages, cursor and highlights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.heatmap.board import Board
from visualizer.heatmap.cell_cursor import CellCursor, present_cursor
from visualizer.heatmap.comparison_board_presenter import present_comparison_board
from visualizer.heatmap.flow_presenter import present_flow, thumbnail_sources
from visualizer.heatmap.highlights import Highlights, present_highlights, with_pointed_cell_inputs
from visualizer.heatmap.panel_presenter import (
    PanelSource,
    SideBySidePanelSource,
    head_overview_source,
    present_head_overview,
    present_minimap,
)
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.resolved_view import resolve_view
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from visualizer.attention.stages import Stage
    from visualizer.heatmap.board import Heatmap
    from visualizer.progress import Progress
    from visualizer.session.resolved_view import ResolvedView


PREVIEW_CELLS = 2**23
"""Approximate number of cells that are computed before the first image of a long text is shown."""
CELLS_PER_CHECK = 2**22
"""Approximate number of cells that are computed between two checks for a newer request."""
PROGRESS_STEPS = 1000
"""Number of progress steps that are reported while a panel is drawn."""


class BoardContents(Struct, frozen=True, eq=False):
    """The panels, the cursor and the highlights.

    Parameters
    ----------
    highlights : Highlights
        Highlights of the current step or prediction or, without these, of the hovered or pinned
        cell.
    message : str
        Text shown if the board has no panels.
    board_key, step_key : hashable
        Cache keys of the board and of the step's highlights.
    step_highlights : Highlights
        The highlights of the step or the prediction, but not of a cell.
    """

    board: Board = field(default_factory=Board)
    cursor: CellCursor = field(default_factory=CellCursor)
    highlights: Highlights = field(default_factory=Highlights)
    message: str = ""
    board_key: Hashable = None
    step_key: Hashable = None
    step_highlights: Highlights = field(default_factory=Highlights)


BOARD_CONTENTS: PanelId[BoardContents] = PanelId("Board")


def present_board_contents(
    resolved: ResolvedView, previous: BoardContents | None = None
) -> BoardContents:
    """Present the panels; unchanged panels are the same objects as before.

    The board is reused if no input of the panels has changed, for example while the pointer moves.
    """
    previous = previous or BoardContents()
    board_key, step_key = _board_key(resolved), resolved.step_key
    board, step_highlights = previous.board, previous.step_highlights
    if board_key != previous.board_key:
        present = present_comparison_board if resolved.comparison else present_board
        presented = present(resolved, board)
        if _board_identity_key(presented) != _board_identity_key(board):
            board = presented
    if step_key != previous.step_key:
        step_highlights = present_highlights(resolved)
    highlights = with_pointed_cell_inputs(resolved, step_highlights)
    return BoardContents(
        board,
        present_cursor(resolved),
        previous.highlights if highlights == previous.highlights else highlights,
        "",
        board_key,
        step_key,
        step_highlights,
    )


def prefetch_key(resolved: ResolvedView) -> Hashable:
    """Return a key for the tensors from which the panels are drawn."""
    return _panels_key(resolved), id(resolved.comparison) if resolved.comparison else None


def prefetch(resolved: ResolvedView, previous: BoardContents | None) -> BoardContents:
    """Build the panels on the worker thread, and read the values that hovering may need."""
    sources = [*_panel_and_minimap_sources(resolved)]
    for source in sources:
        source.draw_coarse_rows(PREVIEW_CELLS // len(sources))
    made = present_board_contents(resolved, previous)
    _prefetch_hover_values(resolved)
    return made


def has_preview(resolved: ResolvedView) -> bool:
    """Return whether the visible part is drawn: exactly if that is cheap, or else as a preview."""
    return all(
        source.exact_row_share == 1
        or (source.drawn_row_share == 1 and source.max_cells_to_compute > CELLS_PER_CHECK)
        for source in _panel_and_minimap_sources(resolved)
    ) and all(source.drawn_row_share == 1 for source in _long_text_thumbnail_sources(resolved))


def draw_preview(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Draw a preview of the visible part of a long text, until `is_over` returns True.

    The preview is exact if exact values are cheap to compute.
    """
    for source in _panel_and_minimap_sources(resolved):
        while source.draw_coarse_rows(CELLS_PER_CHECK):
            if is_over():
                return
        if source.max_cells_to_compute <= CELLS_PER_CHECK and not source.draw_exact_rows(is_over):
            return
    for source in _long_text_thumbnail_sources(resolved):
        while source.draw_coarse_rows(CELLS_PER_CHECK):
            if is_over():
                return


def draw_exact_values(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Draw the visible part of a long text exactly, until `is_over` returns True."""
    for source in _panel_and_minimap_sources(resolved):
        if not source.draw_exact_rows(is_over):
            return


def draw_panels(resolved: ResolvedView, progress: Progress) -> None:
    """Draw all panels of a long text exactly, except the minimap.

    Parameters
    ----------
    progress : callable
        Called after each band of rows; an exception that it raises cancels the work.
    """
    sources = [*_panel_sources(resolved)]
    for number, source in enumerate(sources):
        draw_exact_panel(source, partial_progress(progress, number, len(sources)))


def draw_exact_panel(source: PanelSource, progress: Progress) -> None:
    """Draw a panel of a long text exactly; see `draw_panels`."""

    def is_over() -> bool:
        progress(round(source.exact_row_share * PROGRESS_STEPS), PROGRESS_STEPS)
        return False

    source.draw_exact_rows(is_over)


def partial_progress(progress: Progress, number: int, count: int) -> Progress:
    """Return a progress callback for one of several parts of equal size."""

    def report_progress(done: int, of: int) -> None:
        progress(number * of + done, count * of)

    return report_progress


def draw_panel_previews(resolved: ResolvedView, room: int, progress: Progress) -> None:
    """Draw a preview of all panels of a long text, with `room` cells per side."""
    coarse = resolve_view(
        resolved.document, replace(resolved.view, room=room), resolved.run, resolved.computed
    )
    sources = [*_panel_sources(coarse)]
    for number, source in enumerate(sources):
        progress(number, len(sources))
        source.draw_coarse_rows()


def is_fully_drawn(resolved: ResolvedView) -> bool:
    """Return whether the visible part is drawn exactly."""
    return all(source.exact_row_share == 1 for source in _panel_and_minimap_sources(resolved))


def describe_exactness(resolved: ResolvedView) -> str:
    """Describe how much of a long text's heatmaps is exact, or return an empty string if all is.

    The description is not a panel note, because it changes often, and a change of notes would move
    the layout.
    """
    sources = [*_panel_and_minimap_sources(resolved)]
    share = sum(source.exact_row_share for source in sources) / max(1, len(sources))
    if not sources or share == 1:
        return ""
    block = max(source.rows_per_sample for source in sources)
    rest = f"; elsewhere 1 row in {block:,}" if block > 1 else ""
    return f"heatmaps {math.floor(100 * share)}% exact{rest}"


def _panel_and_minimap_sources(resolved: ResolvedView) -> Iterator[PanelSource]:
    """Yield the sources of all panels and the minimap if matrices are computed in blocks."""
    yield from _panel_sources(resolved)
    if resolved.overview and resolved.run.trace.is_blockwise:
        yield head_overview_source(resolved, resolved.overview, resolved.overview_head)


def _long_text_thumbnail_sources(resolved: ResolvedView) -> tuple[PanelSource, ...]:
    """Return the sources of the thumbnails of a long text, which are never drawn exactly."""
    is_shown = resolved.flow is not None and resolved.run.trace.is_blockwise
    return thumbnail_sources(resolved) if is_shown else ()


def _panel_sources(resolved: ResolvedView) -> Iterator[PanelSource]:
    """Yield the sources of the panels, without the minimap, if matrices are computed in blocks."""
    if not resolved.run.trace.is_blockwise:
        return
    for stage in resolved.shown_stages:
        yield from _stage_panel_sources(resolved, stage)


def _board_key(resolved: ResolvedView) -> Hashable:
    """Return the cache key of the panels, which contains all inputs except the pointer."""
    view, overview, pinned = resolved.view, resolved.overview, resolved.pinned
    return (
        resolved.run,
        resolved.leading,
        resolved.stages,
        resolved.heads,
        resolved.folds,
        resolved.zoom,
        resolved.comparison,
        resolved.flow,
        (view.room, view.lens, view.colouring),
        (overview, resolved.overview_head) if overview else None,
        (resolved.is_spread, pinned.head if resolved.is_spread and pinned else None),
        tuple(source.tensor.version for source in _panel_and_minimap_sources(resolved)),
    )


def _board_identity_key(board: Board) -> tuple[object, ...]:
    return (board.columns, board.overview, board.zoom, board.current,
            board.flow and board.flow.heatmaps,
            board.flow and (board.flow.focus, board.flow.front))  # fmt: skip


def present_board(resolved: ResolvedView, previous: Board) -> Board:
    """Present the visible stages; unchanged panels are the same objects as before."""
    known = previous.panels_by_key
    if resolved.flow:
        flow = present_flow(resolved, known)
        panels: tuple[tuple[Heatmap, ...], ...] = tuple((panel,) for panel in flow.panels)
        return Board(panels, present_minimap(resolved, known), resolved.zoom, flow=flow)
    columns = tuple(
        tuple(panel.build_heatmap(known) for panel in _stage_panel_sources(resolved, stage))
        for stage in resolved.shown_stages
    )
    current = resolved.leading if resolved.is_spread else None
    return Board(columns, present_minimap(resolved, known), resolved.zoom, current)


def _stage_panel_sources(resolved: ResolvedView, stage: Stage) -> Iterator[PanelSource]:
    """Yield the sources of a stage's panels: one per text or layer, or one per head."""
    if not resolved.is_spread:
        for head_or_aggregate in resolved.rows_of(stage):
            yield PanelSource(resolved, stage, *head_or_aggregate)
        return
    head = resolved.side_by_side_head(stage)
    for leading in resolved.side_by_side_indices:
        yield SideBySidePanelSource(resolved, stage, head, None, leading=leading)


def _panels_key(resolved: ResolvedView) -> Hashable:
    """Return a key for the values from which the panels of a view are drawn."""
    is_late = resolved.run.trace.is_blockwise  # shown immediately, as far as it is drawn
    shown = () if is_late else resolved.shown_stages
    extents = frozenset(resolved.extent(stage).blocks for stage in shown)
    # Heads are pooled before they are shown, and those of a long text are also drawn.
    is_by_head = is_late or any(blocks != (1, 1) for blocks in extents)
    late = (resolved.leading, resolved.heads) if is_by_head else ()
    chosen, pinned = resolved.view.colouring, resolved.pinned
    folds = () if resolved.is_spread else resolved.folds
    return (
        resolved.stages,
        extents,
        resolved.view.lens,
        resolved.is_spread,
        resolved.flow,
        bool(resolved.heads),  # otherwise only aggregates
        frozenset(folds),
        pinned.fold if pinned and pinned.fold not in folds else None,  # only its own value is read
        chosen.limits,
        resolved.overview is not None and not is_late,
        late,
    )


def _prefetch_hover_values(resolved: ResolvedView) -> None:
    """Read values that hovering may need, for minimaps and for an aggregated pinned cell.

    In a comparison, the numbers shown for a cell include those of its panel without comparison.
    """
    pinned = resolved.pinned
    if resolved.comparison:
        present_board(resolved, Board())
    is_held = not resolved.run.trace.is_blockwise
    for name in resolved.query_key_stages if resolved.overview and is_held else ():
        for head in range(resolved.run.trace.spec.heads):
            present_head_overview(resolved, name, head, {})
    if pinned and pinned.fold:
        resolved.run.trace.displayed_tensor(pinned.stage, resolved.view.lens, pinned.fold)


PANEL = PanelSpec(
    BOARD_CONTENTS,
    lambda resolved, inputs, previous: present_board_contents(resolved, previous),
    BoardContents(),
    prefetch_key=prefetch_key,
    prefetch=lambda resolved, made, previous: prefetch(resolved, previous),
    is_refined=True,
)
