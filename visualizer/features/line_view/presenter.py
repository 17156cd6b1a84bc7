"""The Lines pane as a value: the drawn lines, the highlighted ones, and notes on both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.weight_transforms import WeightTransform
from visualizer.features.line_view.weights_drawn_as_lines import (
    LineRequest,
    SelectedLines,
    heads_with_room,
    no_lines,
    of_key,
    of_query,
    pairs,
    reached,
    request_of,
    strength_of,
    the_largest,
    weight_of,
    why_none,
)
from visualizer.heatmap.hovered_or_pinned_cell import cursor_on
from visualizer.language.tokenizers import all_visible
from visualizer.session.cell_address import Cell
from visualizer.session.line_options import PANE, LineOptions, LineSide, LineToken
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.heatmap.hovered_or_pinned_cell import CellCursor
    from visualizer.session.resolved_view import Resolved

COVERED = "The lines are covered until the prediction is revealed."
LATER = "The lines are drawn as soon as playback has come to the weights."
NOTHING = "No weight has a line. Lower the threshold to see more."
_NUMBERS = {
    WeightTransform.PLAIN: "weights",
    WeightTransform.WITHOUT_FIRST: "weights without the first token",
    WeightTransform.TIMES_VALUE: "weights × ‖value‖",
}


class LinePanel(Struct, frozen=True, eq=False):
    """The line view of one text.

    Parameters
    ----------
    stage : str
        The stage whose numbers are drawn: the weights, before or after dropout.
    heads : int
        The number of heads, drawn or not.
    solo : int or None
        The head that is drawn alone.
    labels : tuple of str
        One per token; queries and keys are the same tokens.
    lines : SelectedLines
        The lines of the whole picture.
    held, lit : SelectedLines or None
        The lines of the pinned cell, and those of the hovered or else the pinned cell; None where
        nothing is highlighted.
    cell : Cell or None
        The highlighted cell, of this stage; `weight` is its number where it has a line, `strength`
        that of the line.
    pinned : Cell or None
        The pinned cell, of any stage.
    query, key : int or None
        The highlighted tokens.
    notes : tuple of str
        Notes on the picture, most important first.
    lit_note : str
        A note on the highlighted lines.
    message : str
        The text shown where there are no lines.
    """

    made_of: Hashable = None
    stage: str = "weights"
    heads: int = 0
    solo: int | None = None
    labels: tuple[str, ...] = ()
    lines: SelectedLines = field(default_factory=no_lines)
    held: SelectedLines | None = None
    lit: SelectedLines | None = None
    cell: Cell | None = None
    weight: float | None = None
    strength: float = 0.0
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    notes: tuple[str, ...] = ()
    lit_note: str = ""
    message: str = ""
    options: LineOptions = field(default_factory=LineOptions)


class LineSource(Struct, frozen=True, eq=False):
    """The inputs of the lines: what is read, and how far playback has come."""

    resolved: Resolved
    request: LineRequest
    reach: tuple[int, int] | None
    is_covered: bool

    @property
    def run(self) -> Run:
        return self.resolved.run

    @property
    def key(self) -> Hashable:
        trace, request = self.run.trace, self.request
        held, labels = trace.seen(request.stage, request.lens), self.run.words(request.leading)
        return held, labels, request, self.reach, self.is_covered

    def there(self, lines: SelectedLines) -> SelectedLines:
        """The lines that playback has reached."""
        return reached(lines, *self.reach) if self.reach else lines


LINES: PanelId[LinePanel | None] = PanelId(PANE)


def present_lines(
    resolved: Resolved, cursor: CellCursor, previous: LinePanel | None
) -> LinePanel | None:
    """Present a text's weights as lines; unchanged lines are the same object as before."""
    if why := why_none(resolved.run):
        return LinePanel(message=why)
    source = _source(resolved)
    made_of = source.key
    picture = previous if previous and previous.made_of == made_of else _picture(source, made_of)
    return _lit(source, replace(picture, options=resolved.view.lines), cursor)


def largest_cell(resolved: Resolved, token: LineToken) -> Cell | None:
    """The cell of a token's largest visible line."""
    source = _source(resolved)
    choose = of_key if token.side is LineSide.KEY else of_query
    lines = source.there(choose(resolved.run, source.request, token.at))
    if source.is_covered or not len(lines):
        return None
    place = tuple(int(column[-1]) for column in (lines.heads, lines.queries, lines.keys))
    return Cell(source.request.stage, place)


def _source(resolved: Resolved) -> LineSource:
    request, place = request_of(resolved), resolved.place
    reach = resolved.timeline.reach(place, request.stage) if place else None
    return LineSource(resolved, request, reach, request.stage in resolved.covered)


def _picture(source: LineSource, made_of: Hashable) -> LinePanel:
    run, request = source.run, source.request
    trace = run.trace
    panel = LinePanel(
        made_of=made_of,
        stage=request.stage,
        heads=trace.spec.heads,
        solo=request.heads[0] if source.resolved.view.lines.solo is not None else None,
        labels=all_visible(run.labels(request.leading)),
    )
    if source.is_covered:
        return replace(panel, message=COVERED)
    whole = the_largest(run, request)
    lines = source.there(whole)
    return replace(
        panel,
        lines=lines,
        notes=_notes(run, request, lines),
        message="" if len(lines) else LATER if len(whole) else NOTHING,
    )


def _notes(run: Run, request: LineRequest, lines: SelectedLines) -> tuple[str, ...]:
    notes, of_each = (
        _whose(run, request),
        "of each query and head" if len(request.heads) > 1 else "of each query",
    )
    if lines.is_thinned:
        heads = heads_with_room(run, request)
        strongest = f", of each query’s {heads} strongest heads" if heads else f" {of_each}"
        counts = f"{len(lines):,} of {pairs(run, request):,} lines"
        notes.append(f"{counts}: {_largest(request.drawn)}{strongest}")
    elif request.top:
        notes.append(f"{_largest(request.top)} {of_each}")
    if request.threshold:
        notes.append(f"{_NUMBERS[request.lens]} ≥ {request.threshold:g}")
    if request.by_query:
        notes.append("strength: in relation to each query’s largest")
    return tuple(notes)


def _whose(run: Run, request: LineRequest) -> list[str]:
    """A note on which numbers the lines are, where they are not the plain weights."""
    is_dropped = request.stage == run.trace.dropout_stage
    if request.lens is WeightTransform.PLAIN and not is_dropped:
        return []
    return [_NUMBERS[request.lens] + ", after dropout" * is_dropped]


def _largest(count: int) -> str:
    return f"the {count} largest" if count > 1 else "the largest"


def _lit(source: LineSource, panel: LinePanel, cursor: CellCursor) -> LinePanel:
    """Highlight the lines of the hovered cell, or else of the pinned one."""
    dark = replace(panel, query=cursor.query, key=cursor.key, held=None, lit=None, lit_note="")
    dark = replace(dark, cell=None, weight=None, pinned=cursor.pinned)
    if panel.message or not (cursor.hovered or cursor.pinned):
        return dark
    lit = _lines_with(source, cursor)
    held: SelectedLines | None = lit
    if cursor.hovered:
        alone = cursor_on(source.resolved, None, cursor.pinned)
        held = _lines_with(source, alone) if cursor.pinned else None
    cell = _cell_of(source, cursor)
    weight, strength = None, 0.0
    if cell:
        weight = weight_of(source.run, source.request, cell.place)
        strength = strength_of(source.run, source.request, cell.place[1], weight or 0.0)
    return replace(
        dark,
        held=held,
        lit=lit,
        lit_note=f"the {len(lit)} largest are lit" if lit.is_thinned else "",
        cell=cell,
        weight=weight,
        strength=strength,
    )


def _lines_with(source: LineSource, cursor: CellCursor) -> SelectedLines:
    """The lines of a cell's query, or of its key where the cursor came from a key token."""
    run, request = source.run, source.request
    is_by_key = (cursor.hovered or cursor.pinned) in source.resolved.view.lines.by_key
    if cursor.query is not None and not is_by_key:
        return source.there(of_query(run, request, cursor.query))
    return source.there(of_key(run, request, cursor.key)) if cursor.key is not None else no_lines()


def _cell_of(source: LineSource, cursor: CellCursor) -> Cell | None:
    """The highlighted cell as one of the drawn stage: the same query and key."""
    cell = cursor.hovered or cursor.pinned
    if cell is None or cell.head is None or not _is_of_pairs(source.run, cell):
        return None
    return Cell(source.request.stage, cell.place)


def _is_of_pairs(run: Run, cell: Cell) -> bool:
    return run.trace.stage(cell.stage).dims[-1] == "key"
