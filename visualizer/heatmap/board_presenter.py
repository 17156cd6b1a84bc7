"""The board as one value: the panels of the stages shown, the cursor and the highlights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.heatmap.comparison_board_presenter import present_compared
from visualizer.heatmap.hovered_or_pinned_cell import CellCursor, present_cursor
from visualizer.heatmap.panel_and_board_types import Board
from visualizer.heatmap.panel_presenter import (
    PanelSource,
    SpreadPanelSource,
    overview_of,
    overview_of_head,
    overview_source,
)
from visualizer.heatmap.step_cell_and_prediction_highlights import (
    Highlights,
    present_highlights,
    with_pointed,
)
from visualizer.session.colour_options import ColourCurve
from visualizer.session.resolved_view import resolve
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from visualizer.attention.stages import Stage
    from visualizer.heatmap.panel_and_board_types import Heatmap
    from visualizer.progress_callback import Progress
    from visualizer.session.resolved_view import Resolved


FIRST_CELLS = 2**23
"""About how many numbers are computed before any picture of a long text is shown."""
CELLS_AT_ONCE = 2**22
"""About how many of them between two questions whether something else is wanted by now."""
SHARES = 1000
"""In how many parts the drawing of a panel is told."""


class BoardContents(Struct, frozen=True, eq=False):
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
        present = present_compared if resolved.comparison else present_board
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
    return _needs_of_panels(resolved), id(resolved.comparison) if resolved.comparison else None


def warm(resolved: Resolved, previous: BoardContents | None) -> BoardContents:
    """Make the picture on the worker, and read what hovering may need."""
    sources = [*_sources(resolved)]
    for source in sources:
        source.sketch(FIRST_CELLS // len(sources))
    made = present_board_contents(resolved, previous)
    _read_ahead(resolved)
    return made


def is_begun(resolved: Resolved) -> bool:
    """Whether there is a whole first picture of all that is seen, exact where that takes little."""
    return all(
        source.exact_share == 1 or (source.begun_share == 1 and source.most_cells > CELLS_AT_ONCE)
        for source in _sources(resolved)
    )


def begin(resolved: Resolved, is_over: Callable[[], bool]) -> None:
    """Have a first picture made of all that is seen of a long text, until it is over.

    Where that takes little, it is exact.
    """
    for source in _sources(resolved):
        while source.sketch(CELLS_AT_ONCE):
            if is_over():
                return
        if source.most_cells <= CELLS_AT_ONCE and not source.draw(is_over):
            return


def draw_more(resolved: Resolved, is_over: Callable[[], bool]) -> None:
    """Have what is seen of a long text drawn exactly, until it is over."""
    for source in _sources(resolved):
        if not source.draw(is_over):
            return


def draw_panels(resolved: Resolved, progress: Progress) -> None:
    """Have all panels of a long text drawn exactly, but not the small map of the whole.

    Parameters
    ----------
    progress : callable
        Called after each band of rows; an exception from it cancels.
    """
    sources = [*_panel_sources(resolved)]
    for number, source in enumerate(sources):
        draw_panel(source, part_of_sources(progress, number, len(sources)))


def draw_panel(source: PanelSource, progress: Progress) -> None:
    """Have a panel of a long text drawn exactly; see `draw_panels`."""

    def is_over() -> bool:
        progress(round(source.exact_share * SHARES), SHARES)
        return False

    source.draw(is_over)


def part_of_sources(progress: Progress, number: int, count: int) -> Progress:
    """Return a callback for one of several parts of equal size."""

    def tell(done: int, of: int) -> None:
        progress(number * of + done, count * of)

    return tell


def sketch_panels(resolved: Resolved, room: int, progress: Progress) -> None:
    """Have a first picture of all panels of a long text, of this many cells a side."""
    coarse = resolve(
        resolved.document, replace(resolved.view, room=room), resolved.run, resolved.computed
    )
    sources = [*_panel_sources(coarse)]
    for number, source in enumerate(sources):
        progress(number, len(sources))
        source.sketch()


def is_drawn(resolved: Resolved) -> bool:
    """Whether all that is seen is drawn exactly."""
    return all(source.exact_share == 1 for source in _sources(resolved))


def how_exact(resolved: Resolved) -> str:
    """Say how much of the pictures of a long text is exact; empty where all is.

    It is no note of a panel, as what is beside and below must not move while it changes.
    """
    sources = [*_sources(resolved)]
    share = sum(source.exact_share for source in sources) / max(1, len(sources))
    if not sources or share == 1:
        return ""
    block = max(source.sampled_rows for source in sources)
    rest = f", the rest shows 1 row of {block:,}" if block > 1 else ""
    return f"pictures {math.floor(100 * share)} % exact{rest}"


def _sources(resolved: Resolved) -> Iterator[PanelSource]:
    """Give the panels that show a text too long to be held; what is seen of them is drawn late."""
    yield from _panel_sources(resolved)
    if resolved.overview and resolved.run.trace.is_blockwise:
        yield overview_source(resolved, resolved.overview, resolved.overview_head)


def _panel_sources(resolved: Resolved) -> Iterator[PanelSource]:
    """Give them without the small map of the whole."""
    if not resolved.run.trace.is_blockwise:
        return
    for stage in resolved.shown_stages:
        if stage.name != resolved.sheet:
            yield from _panels(resolved, stage)
    pinned = resolved.pinned
    if resolved.sheet and pinned:
        stage = resolved.run.trace.stage(resolved.sheet)
        yield PanelSource(resolved, stage, pinned.head, pinned.fold)


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
        (view.room, view.small_room, resolved.large, view.lens, view.colouring),
        (overview, resolved.overview_head) if overview else None,
        (pinned.head, pinned.fold, _origin(resolved)) if resolved.sheet and pinned else None,
        (resolved.is_spread, pinned.head if resolved.is_spread and pinned else None),
        tuple(source.held.version for source in _sources(resolved)),
    )


def _same(board: Board, previous: Board) -> Board:
    return previous if _parts(board) == _parts(previous) else board


def _parts(board: Board) -> tuple[object, ...]:
    return (board.columns, board.overview, board.zoom, board.current, board.large, board.sheet,
            board.origin)  # fmt: skip


def present_board(resolved: Resolved, previous: Board) -> Board:
    """Show the stages that are looked at; panels that did not change are the very same objects."""
    known = previous.known
    columns = tuple(
        tuple(panel.heatmap(known) for panel in _panels(resolved, stage))
        for stage in resolved.shown_stages
        if stage.name != resolved.sheet
    )
    current = resolved.leading if resolved.is_spread else None
    return Board(
        columns,
        overview_of(resolved, known),
        resolved.zoom,
        current,
        large=resolved.large,
        sheet=_sheet(resolved, known),
        origin=_origin(resolved),
    )


def _sheet(resolved: Resolved, known: dict[Hashable, Heatmap]) -> Heatmap | None:
    """Show the panel of the pinned cell, where its stage was not chosen."""
    pinned = resolved.pinned
    if resolved.sheet is None or pinned is None:
        return None
    stage = resolved.run.trace.stage(resolved.sheet)
    return PanelSource(resolved, stage, pinned.head, pinned.fold).heatmap(known)


def _origin(resolved: Resolved) -> tuple[str, int | None]:
    """Name the panel from which one came to the pinned cell."""
    past = resolved.view.past
    if resolved.sheet is None or not past:
        return "", None
    return past[-1].stage, past[-1].head


def _panels(resolved: Resolved, stage: Stage) -> Iterator[PanelSource]:
    """Give a stage's panels: of every text or layer, or of the heads of one."""
    if not resolved.is_spread:
        for whose in resolved.rows_of(stage):
            yield PanelSource(resolved, stage, *whose)
        return
    head = resolved.spread_head(stage)
    for leading in resolved.spread_indices:
        yield SpreadPanelSource(resolved, stage, head, None, leading=leading)


def _needs_of_panels(resolved: Resolved) -> Hashable:
    """Name what has to be read for the panels of a view."""
    is_late = resolved.run.trace.is_blockwise  # shown at once, from what is drawn already
    shown = () if is_late else resolved.shown_stages
    extents = frozenset(resolved.extent(stage).blocks for stage in shown)
    # Of heads that were not drawn yet, a first picture is made before they are shown.
    late = (resolved.leading, resolved.heads) if is_late else ()
    chosen, pinned = resolved.view.colouring, resolved.pinned
    folds = () if resolved.is_spread else resolved.folds
    return (
        resolved.stages,
        extents,
        resolved.view.lens,
        resolved.is_spread,
        bool(resolved.heads),  # else folds alone
        frozenset({*folds, *([pinned.fold] if pinned and pinned.fold else [])}),
        (chosen.limits, chosen.curve is ColourCurve.LINEAR),
        resolved.overview is not None and not is_late,
        late,
    )


def _read_ahead(resolved: Resolved) -> None:
    """Read what may be pointed at: the map of whichever has the pinned cell, and a folded cell.

    Of a comparison, the numbers that are told of a cell are those of its usual panel, too.
    """
    pinned = resolved.pinned
    if resolved.comparison:
        present_board(resolved, Board())
    is_held = not resolved.run.trace.is_blockwise
    for name in resolved.square_stages if resolved.overview and is_held else ():
        overview_of_head(resolved, name, 0, {})
    if pinned and pinned.fold:
        resolved.run.trace.seen(pinned.stage, resolved.view.lens, pinned.fold)
