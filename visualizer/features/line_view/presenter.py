"""The Lines pane as a value: the drawn lines, the highlighted ones, and notes on both."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.roles import Role
from visualizer.features.line_view import line_selection
from visualizer.features.line_view.line_selection import (
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
from visualizer.features.line_view.long_text_lines import (
    known_of,
    pinned_query,
    queries_to_read,
    strongest_lines,
)
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_cursor import cursor_on
from visualizer.language.tokenizers import all_visible
from visualizer.session.cell_address import Cell
from visualizer.session.pane import PanelPresenter, prefetch_only
from visualizer.session.screen import PanelId
from visualizer.session.view_options import PANE, LineSide, LineToken

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.features.line_view.long_text_lines import (
        QueriesToRead,
        StrongestLines,
        StrongestWeights,
    )
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.session.resolved_view import Resolved

COVERED = "Lines are hidden until the answer is revealed."
LATER = "Lines appear when playback reaches the attention weights."
AWAITED = "Finding the strongest lines…"
NOTHING = "No weight reaches the threshold. Lower it to see lines."
_NUMBER_NAMES = {
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
        The head that is drawn on its own.
    labels : tuple of str
        One per row; queries and keys are the same tokens.
    tokens : tuple of int or None
        The tokens that have a row, ascending; None for all.
    lines : SelectedLines
        The lines of the whole picture.
    held, lit : SelectedLines or None
        The lines of the pinned cell, and those of the hovered or else the pinned cell; None if
        nothing is highlighted.
    cell : Cell or None
        The highlighted cell, of this stage; `weight` is its number if it has a line, `strength`
        that of the line.
    qualifier : str
        Whether the weights are taken before or after a step, if the trace has both.
    pinned : Cell or None
        The pinned cell, of any stage.
    query, key : int or None
        The highlighted tokens.
    notes : tuple of str
        Notes on the picture, most important first.
    lit_note : str
        A note on the highlighted lines.
    message : str
        The text shown if there are no lines.
    """

    made_of: tuple[Hashable, ...] = ()
    stage: str = Role.WEIGHTS
    heads: int = 0
    solo: int | None = None
    labels: tuple[str, ...] = ()
    tokens: tuple[int, ...] | None = None
    lines: SelectedLines = field(default_factory=no_lines)
    held: SelectedLines | None = None
    lit: SelectedLines | None = None
    cell: Cell | None = None
    weight: float | None = None
    qualifier: str = ""
    strength: float = 0.0
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    notes: tuple[str, ...] = ()
    lit_note: str = ""
    message: str = ""


class LineSource(Struct, frozen=True, eq=False):
    """The inputs of the lines: the run, the request, and how far playback has come."""

    resolved: Resolved
    request: LineRequest
    reach: tuple[int, int] | None
    is_covered: bool
    of_long: StrongestLines | None = None
    """The lines of a long text, the only ones it has; None before any are read."""

    @property
    def run(self) -> Run:
        return self.resolved.run

    @property
    def key(self) -> tuple[Hashable, ...]:
        trace, request = self.run.trace, self.request
        held, labels = trace.seen(request.stage, request.lens), self.run.words(request.leading)
        qualifier = trace.weights_qualifier(request.stage)
        return held, labels, request, qualifier, self.reach, self.is_covered, self.of_long

    def is_awaited_after(self, previous: LinePanel) -> bool:
        """Whether a long text's lines are still being read while some of its stage are shown."""
        if not self.run.trace.is_blockwise or self.of_long or self.is_covered:
            return False
        return previous.made_of[:2] == self.key[:2] and len(previous.lines) > 0

    def of_query(self, query: int) -> SelectedLines:
        """The lines of one query that playback has reached."""
        if self.run.trace.is_blockwise:
            lines = self.of_long.of_query(query) if self.of_long else no_lines()
        else:
            lines = of_query(self.run, self.request, query)
        return self.there(lines)

    def of_key(self, key: int) -> SelectedLines:
        """The lines to one key that playback has reached."""
        if self.run.trace.is_blockwise:
            lines = self.of_long.of_key(key) if self.of_long else no_lines()
        else:
            lines = of_key(self.run, self.request, key)
        return self.there(lines)

    def of_cell(self, place: tuple[int, ...]) -> tuple[float | None, float]:
        """The weight of a head, query and key (None without a line), and its strength."""
        if self.run.trace.is_blockwise:
            return self.of_long.of_cell(place) if self.of_long else (None, 0.0)
        weight = weight_of(self.run, self.request, place)
        return weight, strength_of(self.run, self.request, place[1], weight or 0.0)

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
    source = _line_source(resolved)
    made_of = source.key
    is_same = previous is not None and previous.made_of == made_of
    if previous and (is_same or source.is_awaited_after(previous)):
        picture = previous
    else:
        picture = _build_picture(source, made_of)
    return _highlight_lines(source, picture, cursor)


def largest_cell(resolved: Resolved, token: LineToken) -> Cell | None:
    """The cell of a token's largest visible line."""
    source = _line_source(resolved)
    lines = (source.of_key if token.side is LineSide.KEY else source.of_query)(token.at)
    if source.is_covered or not len(lines):
        return None
    place = tuple(int(column[-1]) for column in (lines.heads, lines.queries, lines.keys))
    return Cell(source.request.stage, place)


def _line_source(resolved: Resolved) -> LineSource:
    request, place = request_of(resolved), resolved.place
    reach = resolved.timeline.reach(place, request.stage) if place else None
    of_long = strongest_lines(resolved) if resolved.run.trace.is_blockwise else None
    return LineSource(resolved, request, reach, request.stage in resolved.covered, of_long)


def _build_picture(source: LineSource, made_of: tuple[Hashable, ...]) -> LinePanel:
    run, request = source.run, source.request
    trace = run.trace
    panel = LinePanel(
        made_of=made_of,
        stage=request.stage,
        qualifier=trace.weights_qualifier(request.stage),
        heads=trace.spec.heads,
        solo=request.heads[0] if source.resolved.view.lines.solo is not None else None,
        labels=all_visible(run.labels(request.leading)),
    )
    if trace.is_blockwise:
        return _build_long_text_picture(source, panel)
    if source.is_covered:
        return replace(panel, message=COVERED)
    whole = the_largest(run, request)
    lines = source.there(whole)
    return replace(
        panel,
        lines=lines,
        notes=_build_notes(run, request, _describe_counts(run, request, lines)),
        message="" if len(lines) else LATER if len(whole) else NOTHING,
    )


def _build_long_text_picture(source: LineSource, panel: LinePanel) -> LinePanel:
    """The lines of the queries read so far, with rows for their tokens only."""
    resolved, request = source.resolved, source.request
    wanted = queries_to_read(resolved)
    found, of_long = known_of(source.run, wanted), source.of_long
    whole = of_long.drawn if of_long else no_lines()
    lines = source.there(whole)
    pinned = pinned_query(resolved)
    tokens = {*lines.queries.tolist(), *lines.keys.tolist(), *(() if pinned is None else (pinned,))}
    listed = tuple(sorted(tokens or wanted.queries))
    message = "" if len(lines) else LATER if len(whole) else NOTHING if of_long else AWAITED
    if source.is_covered:
        message, lines = COVERED, no_lines()
    return replace(
        panel,
        labels=tuple(f"{token + 1:,} {panel.labels[token]}" for token in listed),
        tokens=listed,
        lines=lines,
        notes=_build_notes(
            source.run, request, _describe_long_text_counts(wanted, found, lines) if found else ""
        ),
        message=message,
    )


def _describe_long_text_counts(
    wanted: QueriesToRead, found: StrongestWeights, lines: SelectedLines
) -> str:
    """Describe how many lines of a long text are drawn, and for which queries."""
    queries = wanted.queries
    scope = f"for queries {queries[0] + 1:,} to {queries[-1] + 1:,}"
    if queries.step > 1:
        scope = f"for one query in {queries.step:,}; pin a query to see lines near it"
    read = "" if found.is_whole else f" (heads 1 to {found.read} of {found.heads} so far)"
    largest = f", {_describe_largest(wanted.request.top)} {_describe_scope(wanted.request)}" * bool(
        wanted.request.top
    )
    return f"{len(lines):,} of {found.pairs:,} lines{read}: the strongest {scope}{largest}"


def _describe_counts(run: Run, request: LineRequest, lines: SelectedLines) -> str:
    """Describe how many lines are drawn; empty if all requested lines are."""
    of_each = _describe_scope(request)
    if not lines.is_thinned:
        return f"{_describe_largest(request.top)} {of_each}" if request.top else ""
    heads = heads_with_room(run, request)
    strongest = f", in the {heads} strongest heads per query" if heads else f" {of_each}"
    counts = f"{len(lines):,} of {pairs(run, request):,} lines"
    return f"{counts}: {_describe_largest(request.drawn)}{strongest}"


def _build_notes(run: Run, request: LineRequest, counted: str) -> tuple[str, ...]:
    notes = [*_describe_numbers(run, request), *filter(None, [counted])]
    if request.threshold:
        notes.append(f"{_NUMBER_NAMES[request.lens]} ≥ {request.threshold:g}")
    if request.by_query:
        notes.append("opacity relative to each query’s largest weight")
    return tuple(notes)


def _describe_scope(request: LineRequest) -> str:
    return "per query and head" if len(request.heads) > 1 else "per query"


def _describe_numbers(run: Run, request: LineRequest) -> list[str]:
    """Name the numbers that are drawn, if they are not the plain weights."""
    qualifier = run.trace.weights_qualifier(request.stage)
    if request.lens is WeightTransform.PLAIN and not qualifier:
        return []
    return [", ".join(filter(None, (_NUMBER_NAMES[request.lens], qualifier)))]


def _describe_largest(count: int) -> str:
    return f"the {count} largest" if count > 1 else "the largest"


def _highlight_lines(source: LineSource, panel: LinePanel, cursor: CellCursor) -> LinePanel:
    """Highlight the lines of the hovered cell, or else of the pinned one."""
    dark = replace(panel, query=cursor.query, key=cursor.key, held=None, lit=None, lit_note="")
    dark = replace(dark, cell=None, weight=None, pinned=cursor.pinned)
    if panel.message or not (cursor.hovered or cursor.pinned):
        return dark
    lit = _lines_of_cursor(source, cursor)
    if panel.tokens is not None and not len(lit):  # the highlighted token has no row
        return dark
    held: SelectedLines | None = lit
    if cursor.hovered:
        alone = cursor_on(source.resolved, None, cursor.pinned)
        held = _lines_of_cursor(source, alone) if cursor.pinned else None
    cell = _highlighted_cell(source, cursor)
    weight, strength = source.of_cell(cell.place) if cell else (None, 0.0)
    return replace(
        dark,
        held=held,
        lit=lit,
        lit_note=f"only the {len(lit)} largest are highlighted" if lit.is_thinned else "",
        cell=cell,
        weight=weight,
        strength=strength,
    )


def _lines_of_cursor(source: LineSource, cursor: CellCursor) -> SelectedLines:
    """The lines of a cell's query, or of its key if the cursor came from a key token."""
    is_by_key = (cursor.hovered or cursor.pinned) in source.resolved.view.lines.by_key
    if cursor.query is not None and not is_by_key:
        return source.of_query(cursor.query)
    return source.of_key(cursor.key) if cursor.key is not None else no_lines()


def _highlighted_cell(source: LineSource, cursor: CellCursor) -> Cell | None:
    """The highlighted cell as one of the drawn stage, with the same query and key."""
    cell = cursor.hovered or cursor.pinned
    if cell is None or cell.head is None or not _is_query_key_cell(source.run, cell):
        return None
    return Cell(source.request.stage, cell.place)


def _is_query_key_cell(run: Run, cell: Cell) -> bool:
    return run.trace.stage(cell.stage).dims[-1] == "key"


PANEL = PanelPresenter(
    LINES,
    lambda resolved, moment, previous: present_lines(
        resolved, moment.panel(BOARD_CONTENTS).cursor, previous
    ),
    None,
    LINES.name,
    prefetch_key=line_selection.needs,
    prefetch=partial(prefetch_only, line_selection.warm),
    is_refined=True,
)
