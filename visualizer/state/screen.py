"""All that is shown, as one value: a function of the document, the view and the run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from visualizer.state.caption import facts
from visualizer.state.code.twin import Twin, present_twin
from visualizer.state.compare.bar import ComparePanel, present_bar
from visualizer.state.compare.board import present_compared
from visualizer.state.compare.words import beside
from visualizer.state.cursor import Cursor, panel_of, present_cursor
from visualizer.state.folded import folded_readout, lens_line
from visualizer.state.heatmaps import shown_stages
from visualizer.state.lessons.pages import LessonPanel, present_lesson
from visualizer.state.lines.panel import LinePanel, present_lines
from visualizer.state.looks import Looks, present_looks
from visualizer.state.measures import HeadTable, present_heads
from visualizer.state.painting import Painting, present_painting
from visualizer.state.panels import Board
from visualizer.state.playback.lights import Lights, focus, read_for
from visualizer.state.playback.timeline import Grain
from visualizer.state.playback.transport import Stand, present_stand
from visualizer.state.readout import Readout, covered, present_readout
from visualizer.state.setup import Setup, present_setup
from visualizer.state.shapes import Ledger, present_shapes
from visualizer.state.tables import NumberTable, present_table
from visualizer.state.tokens import Tokens, present_tokens
from visualizer.state.trail import ways

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import InputError
    from visualizer.state.document import Document
    from visualizer.state.lessons.pages import Reading
    from visualizer.state.view import Cell, View

WAITING = "The heatmaps will be here in a moment: loading PyTorch."
NUMBERS = "Numbers"
"""The pane of the table."""
EMPTY = "The heatmaps will be here, as soon as the text and the settings can be used."


@dataclass(frozen=True, slots=True)
class RailItem:
    """One stage on the rail."""

    stage: str
    title: str
    symbol: str
    size: str
    says: str
    is_shown: bool
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """The line at the foot: what was computed where, and what must be said of it."""

    facts: str = ""
    notices: tuple[str, ...] = ()
    is_working: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """The window's whole content.

    Parameters
    ----------
    message : str
        What stands in place of the heatmaps while there are none.
    can_go : frozenset of int
        Whether back (−1) and on (1) along the cells one has followed.
    """

    setup: Setup
    message: str = ""
    rail: tuple[RailItem, ...] = ()
    board: Board = field(default_factory=Board)
    cursor: Cursor = field(default_factory=Cursor)
    tokens: Tokens = field(default_factory=Tokens)
    readout: Readout | None = None
    status: Status = field(default_factory=Status)
    stand: Stand = field(default_factory=Stand)
    lights: Lights = field(default_factory=Lights)
    twin: Twin | None = None
    lesson: LessonPanel | None = None
    shapes: Ledger = field(default_factory=Ledger)
    heads: HeadTable | None = None
    comparison: ComparePanel | None = None
    looks: Looks = field(default_factory=Looks)
    table: NumberTable | None = None
    lines: LinePanel | None = None
    painting: Painting | None = None
    can_keep_weights: bool = False
    can_go: frozenset[int] = frozenset()
    can_undo: bool = False
    can_redo: bool = False


def present(
    document: Document,
    view: View,
    run: Run | None,
    refused: InputError | None,
    is_working: bool,
    previous: Screen | None,
    computed: Document | None = None,
) -> Screen:
    """Show a document, a view and the last good run, which is of the document `computed`.

    Parts of the previous screen that did not change are taken over as the very same objects.
    """
    setup = present_setup(document, refused)
    lesson = _lesson(view.reading, document, run, computed, is_working)
    if run is None:
        return _without_numbers(setup, lesson, is_working)
    board = present_compared(run, view, previous.board if previous else Board())
    stand = present_stand(run, view, previous.stand if previous else Stand())
    cursor = present_cursor(run, _seen(view, stand.lights))
    looked_at = cursor.hovered or cursor.pinned or stand.cell
    readout = _readout(run, view, board, stand, looked_at) if looked_at else None
    panes = _panes(document, computed, run, view, board, cursor, stand, previous)
    return Screen(
        setup,
        "",
        _rail(run, view),
        _same(board, previous),
        cursor,
        _tokens(run, view, stand, cursor),
        _same_readout(readout, previous),
        _status(run, setup, panes["painting"], is_working),
        stand,
        _lights(run, view, stand.lights, cursor, previous),
        present_twin(run, view.dialect, _stage(run, view, looked_at)),
        lesson,
        can_keep_weights=computed == document and _has_weights(document),
        can_go=ways(run, view),
        **panes,
    )


def _has_weights(document: Document) -> bool:
    return bool(document.spec.weight_names) and document.captured is None


def _panes(
    document: Document,
    computed: Document | None,
    run: Run,
    view: View,
    board: Board,
    cursor: Cursor,
    stand: Stand,
    previous: Screen | None,
) -> dict[str, Any]:
    """Show what is in panes and bars that can be closed: of those that are, nothing is made."""
    covered, lines = stand.lights.covered, previous.lines if previous else None
    return {
        "comparison": present_bar(run, view, computed),
        "looks": present_looks(run, view, board),
        "heads": _heads(run, view, stand, previous),
        "shapes": _shapes(run, view, previous),
        "lines": present_lines(run, view, cursor, stand.lights, lines),
        "painting": present_painting(document, computed, run, board, view.painting, covered),
        "table": present_table(document, run, view, covered) if NUMBERS in view.panes else None,
    }


def described(screen: Screen) -> Board:
    """Give the panels together with what is said of what they compare."""
    return replace(screen.board, said=screen.comparison.lead if screen.comparison else "")


def _without_numbers(setup: Setup, lesson: LessonPanel | None, is_working: bool) -> Screen:
    message = WAITING if is_working else EMPTY
    return Screen(setup, message, status=Status(is_working=is_working), lesson=lesson)


def _same_readout(readout: Readout | None, previous: Screen | None) -> Readout | None:
    return previous.readout if previous and readout == previous.readout else readout


def _lesson(reading: Reading | None, *held: Any) -> LessonPanel | None:
    if reading is None:
        return None
    panel, following = present_lesson(reading.lesson, reading.page, *held), reading.turned(1)
    is_last = following is not None and following.number > reading.number
    return replace(panel, next_lesson=following.lesson.title) if following and is_last else panel


def _shapes(run: Run, view: View, previous: Screen | None) -> Ledger:
    if "Shapes" not in view.panes:
        return Ledger()
    return present_shapes(run, view, previous.shapes if previous else Ledger())


def _heads(run: Run, view: View, stand: Stand, previous: Screen | None) -> HeadTable | None:
    """Measure no weights that are still to be predicted."""
    if "weights" in stand.lights.covered:
        return None
    return present_heads(run, view, previous.heads if previous else None)


def _stage(run: Run, view: View, looked_at: Cell | None) -> str | None:
    """Name the stage whose line of code runs: the one in focus, else that of a cell."""
    return focus(run, view) or (looked_at.stage if looked_at else None)


def _seen(view: View, lights: Lights) -> View:
    """Leave cells alone that are not there yet."""
    hovered, pinned = view.hovered, view.pinned
    if hovered and lights.is_later(hovered):
        hovered = None
    if pinned and lights.is_later(pinned):
        pinned = None
    return replace(view, hovered=hovered, pinned=pinned)


def _lights(
    run: Run, view: View, lights: Lights, cursor: Cursor, previous: Screen | None
) -> Lights:
    """Light what the cell reads that is pointed at or pinned, where no step is lit."""
    cell = cursor.hovered or cursor.pinned
    if cell is None or lights.lit or cell.stage in lights.covered:
        return lights
    made = replace(lights, lit=read_for(run, view.text, cell))
    return previous.lights if previous and previous.lights == made else made


def _readout(run: Run, view: View, board: Board, stand: Stand, cell: Cell) -> Readout | None:
    if cell.stage in stand.lights.covered:
        return covered(run, cell)
    is_pinned = cell == view.pinned
    if cell.fold:
        readout = folded_readout(run, view, cell, is_pinned)
    else:
        readout = present_readout(run, cell, view.text, is_pinned)
    if readout is None:
        return None
    also = (*lens_line(run, view, cell), *beside(run, view, cell))
    heatmap = panel_of(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return replace(readout, also=also)
    block = f"{heatmap.rows.block} × {heatmap.columns.block}"
    which = "farthest from 0" if heatmap.colour.is_signed else "largest"
    return replace(readout, also=also, heading=f"{readout.heading} · {which} of {block} cells")


def _status(run: Run, setup: Setup, painting: Painting | None, is_working: bool) -> Status:
    said = painting.says if painting else facts(run)
    return Status(said, (*_unused(setup), *run.notices), is_working)


def _unused(setup: Setup) -> tuple[str, ...]:
    """Say over the picture, too, what is wrong: its place in the settings may be scrolled away."""
    wrong = [shown.problem.sentence for shown in setup.settings if shown.problem]
    wrong += [setup.text_problem] if setup.text_problem else []
    return tuple(f"The picture stays as it was. {sentence}" for sentence in wrong[:1])


def _same(board: Board, previous: Screen | None) -> Board:
    same = previous and _parts(board) == _parts(previous.board)
    return previous.board if previous and same else board


def _parts(board: Board) -> tuple[object, ...]:
    return board.columns, board.overview, board.zoom, board.text


def _rail(run: Run, view: View) -> tuple[RailItem, ...]:
    trace, shown, current = run.trace, shown_stages(run, view), focus(run, view)
    return tuple(
        RailItem(
            stage.name,
            stage.title,
            stage.symbol,
            " × ".join(str(size) for size in trace.tensor(stage.name).shape),
            stage.says,
            stage.name in shown,
            stage.name == current,
        )
        for stage in trace.stages
    )


def _tokens(run: Run, view: View, stand: Stand, cursor: Cursor) -> Tokens:
    cell = cursor.hovered or cursor.pinned
    if cell is None and stand.cell and view.playhead.grain is not Grain.STAGE:
        cell = stand.cell
        cursor = present_cursor(run, replace(view, hovered=cell))
    return present_tokens(run, view, stand.lights, cursor, cell)
