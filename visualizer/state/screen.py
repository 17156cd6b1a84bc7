"""All that is shown, as one value: a function of the document, the view and the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.language.tokenizers import all_visible
from visualizer.state.heatmaps import Board, present_board, shown_stages
from visualizer.state.readout import Readout, present_readout
from visualizer.state.setup import Setup, present_setup
from visualizer.state.words import counted, size

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import InputError
    from visualizer.state.document import Document
    from visualizer.state.view import Cell, View

# How an axis of a stage takes part in the cursor: queries are rows of the query's own vectors.
_ROLES = {"queries": "query", "keys": "key", "values": "key"}

WAITING = "The heatmaps will be here in a moment: loading PyTorch."
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


@dataclass(frozen=True, slots=True)
class Cursor:
    """The cell under the pointer, or the pinned one, and all that lights up with it.

    Parameters
    ----------
    query, key : int or None
        Which tokens light up, in every panel and in the token strip.
    column : tuple of (stage, int) or None
        Which column of a panel whose columns are no tokens.
    """

    hovered: Cell | None = None
    pinned: Cell | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    column: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token strip, of the text that is looked at."""

    labels: tuple[str, ...] = ()
    query: int | None = None
    key: int | None = None
    text: int = 0
    texts: int = 1


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
    """

    setup: Setup
    message: str = ""
    rail: tuple[RailItem, ...] = ()
    board: Board = field(default_factory=Board)
    cursor: Cursor = field(default_factory=Cursor)
    tokens: Tokens = field(default_factory=Tokens)
    readout: Readout | None = None
    status: Status = field(default_factory=Status)
    can_undo: bool = False
    can_redo: bool = False


def present(
    document: Document,
    view: View,
    run: Run | None,
    refused: InputError | None,
    is_working: bool,
    previous: Screen | None,
) -> Screen:
    """Show a document, a view and the last good run.

    Parts of the previous screen that did not change are taken over as the very same objects.
    """
    setup = present_setup(document, refused)
    if run is None:
        message = WAITING if is_working else EMPTY
        return Screen(setup, message, status=Status(is_working=is_working))
    board = present_board(run, view, previous.board if previous else Board())
    cursor = present_cursor(run, view)
    looked_at = cursor.hovered or cursor.pinned
    readout = None
    if looked_at:
        readout = present_readout(run, looked_at, view.text, looked_at == cursor.pinned)
    if previous and readout == previous.readout:
        readout = previous.readout
    return Screen(
        setup,
        "",
        _rail(run, view),
        _same(board, previous),
        cursor,
        _tokens(run, view, cursor),
        readout,
        Status(_facts(run), run.notices, is_working),
    )


def _same(board: Board, previous: Screen | None) -> Board:
    return previous.board if previous and board.columns == previous.board.columns else board


def present_cursor(run: Run, view: View) -> Cursor:
    """Say what lights up with the cell under the pointer, or else with the pinned one."""
    hovered, pinned = (_existing(run, cell) for cell in (view.hovered, view.pinned))
    cell = hovered or pinned
    if cell is None:
        return Cursor()
    stage = run.trace.stage(cell.stage)
    place = dict(zip(stage.dims, cell.place, strict=True))
    role = _ROLES.get(stage.name, "query")
    tokens = {role: place["token"]} if "token" in place else place
    last = stage.dims[-1]
    column = None if last == "key" else (stage.name, cell.place[-1])
    return Cursor(
        hovered, pinned, place.get("head"), tokens.get("query"), tokens.get("key"), column
    )


def _existing(run: Run, cell: Cell | None) -> Cell | None:
    if cell is None or cell.stage not in run.trace:
        return None
    sizes = run.trace.tensor(cell.stage).shape[len(run.trace.batch) :]
    fits = len(sizes) == len(cell.place)
    inside = fits and all(at < size for at, size in zip(cell.place, sizes, strict=True))
    return cell if inside else None


def row_role(stage: str) -> str:
    """Name the token that a stage's rows stand for: the query, or the key that is read."""
    return _ROLES.get(stage, "query")


def _rail(run: Run, view: View) -> tuple[RailItem, ...]:
    trace, shown = run.trace, shown_stages(run, view)
    return tuple(
        RailItem(
            stage.name,
            stage.title,
            stage.symbol,
            " × ".join(str(size) for size in trace.tensor(stage.name).shape),
            stage.says,
            stage.name in shown,
        )
        for stage in trace.stages
    )


def _tokens(run: Run, view: View, cursor: Cursor) -> Tokens:
    text = min(view.text, len(run.texts) - 1)
    labels = all_visible(run.texts[text])
    return Tokens(labels, cursor.query, cursor.key, text, len(run.texts))


def _facts(run: Run) -> str:
    spec, trace = run.trace.spec, run.trace
    texts = f"{counted(len(run.texts), 'text')} of " if len(run.texts) > 1 else ""
    parts = (
        run.device,
        texts + counted(trace.tokens, "token"),
        f"{counted(spec.heads, 'head')} of {spec.d_head}",
        str(spec.dtype),
        f"{counted(len(trace.stages), 'stage')}, {size(trace.bytes)}",
    )
    return "  ·  ".join(parts)
