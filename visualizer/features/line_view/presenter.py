"""Presenter of the Lines pane: all lines, highlighted lines, and notes on both."""

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
    count_allowed_pairs,
    create_empty_selected_lines,
    create_line_request,
    filter_reached_lines,
    line_strength,
    line_tensor,
    line_weight,
    max_heads_per_query,
    no_lines_reason,
    select_largest_lines,
    select_lines_of_token,
)
from visualizer.features.line_view.long_text_lines import (
    cached_strongest_weights,
    create_long_text_line_request,
    create_long_text_line_selector,
    pinned_query,
)
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_cursor import create_cursor_on_cell
from visualizer.language.tokenizers import visible_tokens
from visualizer.session.cell_address import Cell
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.screen import PanelId
from visualizer.session.view_options import PANE_TITLE, ColourLimits, LineViewSide, LineViewToken

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.features.line_view.long_text_lines import (
        LongTextLineRequest,
        LongTextLineSelector,
        StrongestWeights,
    )
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.session.resolved_view import ResolvedView

HIDDEN_MESSAGE = "Lines are hidden until the answer is revealed."
PLAYBACK_PENDING_MESSAGE = "Lines appear when playback reaches the attention weights."
SEARCHING_MESSAGE = "Finding the strongest lines…"
BELOW_THRESHOLD_MESSAGE = "No weight reaches the threshold. Lower the threshold to see lines."
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
        The stage that is drawn: the weights, before or after dropout.
    heads : int
        The number of heads of the run.
    drawn_heads : tuple of int
        The heads whose lines are drawn, in ascending order.
    solo : int or None
        The only head that is drawn; None if all visible heads are drawn.
    labels : tuple of str
        The label of each row; queries and keys are the same tokens.
    tokens : tuple of int or None
        The tokens that have a row, in ascending order; None if all tokens have one.
    lines : SelectedLines
        The lines of the whole picture.
    pinned_lines, highlighted_lines : SelectedLines or None
        The lines of the pinned cell, and the lines of the hovered cell or, if no
        cell is hovered, of the pinned cell; None without such a cell.
    cell : Cell or None
        The highlighted cell of this stage. If it has a line, `weight` is its weight, and
        `strength` is the strength of the line.
    qualifier : str
        Whether the weights are taken before or after a step, if the trace contains both.
    pinned : Cell or None
        The pinned cell, which can be in any stage.
    query, key : int or None
        The highlighted tokens.
    notes : tuple of str
        Notes on the picture, most important first.
    highlight_note : str
        A note on the highlighted lines.
    message : str
        The text that is shown if the panel has no lines.
    """

    made_of: tuple[Hashable, ...] = ()
    stage: str = Role.WEIGHTS
    heads: int = 0
    drawn_heads: tuple[int, ...] = ()
    solo: int | None = None
    labels: tuple[str, ...] = ()
    tokens: tuple[int, ...] | None = None
    lines: SelectedLines = field(default_factory=create_empty_selected_lines)
    pinned_lines: SelectedLines | None = None
    highlighted_lines: SelectedLines | None = None
    cell: Cell | None = None
    weight: float | None = None
    qualifier: str = ""
    strength: float = 0.0
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    notes: tuple[str, ...] = ()
    highlight_note: str = ""
    message: str = ""


class LineSource(Struct, frozen=True, eq=False):
    """The source of the lines: the run, the request, and the progress of playback."""

    resolved: ResolvedView
    request: LineRequest
    playback_reach: tuple[int, int] | None
    is_covered: bool
    long_text_lines: LongTextLineSelector | None = None
    """The lines of a long text, or None until a head has been read."""

    @property
    def run(self) -> Run:
        return self.resolved.run

    @property
    def key(self) -> tuple[Hashable, ...]:
        request = self.request
        return (
            line_tensor(self.run, request),
            self.run.axis_tokens(request.leading),
            request,
            self.run.trace.weights_qualifier(request.stage),
            self.playback_reach,
            self.is_covered,
            self.long_text_lines,
        )

    def can_keep_lines(self, previous: LinePanel) -> bool:
        """Return whether lines of the same long text stay visible until new ones have been read."""
        if not self.run.trace.is_blockwise or self.long_text_lines or self.is_covered:
            return False
        return previous.made_of[:2] == self.key[:2] and len(previous.lines) > 0

    def select_lines(self, token: LineViewToken) -> SelectedLines:
        """Select the lines from a query or to a key that playback has reached."""
        if not self.run.trace.is_blockwise:
            lines = select_lines_of_token(self.run, self.request, token)
        elif self.long_text_lines:
            lines = self.long_text_lines.select_lines(token)
        else:
            lines = create_empty_selected_lines()
        return self.reached_lines(lines)

    def weight_and_strength_of_cell(self, place: tuple[int, ...]) -> tuple[float | None, float]:
        """Return the weight at a head, query and key (None without a line), and its strength."""
        if self.run.trace.is_blockwise:
            return (
                self.long_text_lines.weight_and_strength_of_cell(place)
                if self.long_text_lines
                else (None, 0.0)
            )
        weight = line_weight(self.run, self.request, place)
        return weight, line_strength(self.run, self.request, place[1], weight or 0.0)

    def reached_lines(self, lines: SelectedLines) -> SelectedLines:
        """Return the lines that playback has reached."""
        return filter_reached_lines(lines, *self.playback_reach) if self.playback_reach else lines


LINES_PANEL: PanelId[LinePanel | None] = PanelId(PANE_TITLE)


def present_lines(
    resolved: ResolvedView, cursor: CellCursor, previous: LinePanel | None
) -> LinePanel | None:
    """Present the weights of a text as lines; unchanged lines are the same object as before."""
    if why := no_lines_reason(resolved.run):
        return LinePanel(message=why)
    source = _create_line_source(resolved)
    is_kept = previous and (previous.made_of == source.key or source.can_keep_lines(previous))
    picture = previous if previous and is_kept else _build_line_panel(source)
    return _highlight_lines(source, picture, cursor)


def strongest_line_cell(resolved: ResolvedView, token: LineViewToken) -> Cell | None:
    """Return the cell of a token's strongest visible line, or None if it has no visible line."""
    source = _create_line_source(resolved)
    lines = source.select_lines(token)
    if source.is_covered or not len(lines):
        return None
    place = tuple(int(column[-1]) for column in (lines.heads, lines.queries, lines.keys))
    return Cell(source.request.stage, place)


def _create_line_source(resolved: ResolvedView) -> LineSource:
    request, place = create_line_request(resolved), resolved.place
    reach = resolved.timeline.playback_reach(place, request.stage) if place else None
    of_long = create_long_text_line_selector(resolved) if resolved.run.trace.is_blockwise else None
    return LineSource(resolved, request, reach, request.stage in resolved.hidden_stages, of_long)


def _build_line_panel(source: LineSource) -> LinePanel:
    run, request, trace = source.run, source.request, source.run.trace
    panel = LinePanel(
        made_of=source.key,
        stage=request.stage,
        qualifier=trace.weights_qualifier(request.stage),
        heads=trace.spec.heads,
        drawn_heads=tuple(sorted(request.heads)),
        solo=request.heads[0] if source.resolved.view.lines.solo is not None else None,
        labels=visible_tokens(run.token_labels(request.leading)),
    )
    if trace.is_blockwise:
        return _build_long_text_panel(source, panel)
    if source.is_covered:
        return replace(panel, message=HIDDEN_MESSAGE)
    whole = select_largest_lines(run, request)
    lines = source.reached_lines(whole)
    return replace(
        panel,
        lines=lines,
        notes=_build_notes(run, request, _describe_counts(run, request, lines)),
        message=_no_lines_message(lines, whole, BELOW_THRESHOLD_MESSAGE),
    )


def _no_lines_message(visible: SelectedLines, whole: SelectedLines, otherwise: str) -> str:
    if len(visible):
        return ""
    return PLAYBACK_PENDING_MESSAGE if len(whole) else otherwise


def _build_long_text_panel(source: LineSource, panel: LinePanel) -> LinePanel:
    """Return a picture of the lines read so far, with rows only for the tokens that have lines."""
    resolved, request = source.resolved, source.request
    wanted = create_long_text_line_request(resolved)
    found, of_long = cached_strongest_weights(source.run, wanted), source.long_text_lines
    whole = of_long.drawn if of_long and not source.is_covered else create_empty_selected_lines()
    lines = source.reached_lines(whole)
    pinned = pinned_query(resolved)
    tokens = {*lines.queries.tolist(), *lines.keys.tolist(), *(() if pinned is None else (pinned,))}
    listed = tuple(sorted(tokens or wanted.queries))
    otherwise = BELOW_THRESHOLD_MESSAGE if of_long else SEARCHING_MESSAGE
    message = HIDDEN_MESSAGE if source.is_covered else _no_lines_message(lines, whole, otherwise)
    counts = _describe_long_text_counts(wanted, found, lines) if found else ""
    return replace(
        panel,
        labels=tuple(f"{token + 1:,} {panel.labels[token]}" for token in listed),
        tokens=listed,
        lines=lines,
        notes=_build_notes(source.run, request, counts),
        message=message,
    )


def _describe_long_text_counts(
    wanted: LongTextLineRequest, found: StrongestWeights, lines: SelectedLines
) -> str:
    """Describe the number of lines drawn for a long text, and their queries."""
    queries = wanted.queries
    scope, hint = f"for queries {queries[0] + 1:,} to {queries[-1] + 1:,}", ""
    if queries.step > 1:
        scope = f"for one query in {queries.step:,}"
        hint = "; pin a query to see lines near it"
    read = "" if found.is_complete else f" (heads 1 to {found.heads_read} of {found.heads} so far)"
    if wanted.request.top:
        scope += (
            f", {_describe_largest(wanted.request.top)} {_describe_limit_scope(wanted.request)}"
        )
    return f"{len(lines):,} of {found.pairs:,} lines{read}: the strongest {scope}{hint}"


def _describe_counts(run: Run, request: LineRequest, lines: SelectedLines) -> str:
    """Describe the limit on the lines and, if lines are left out, the number of drawn lines."""
    of_each = _describe_limit_scope(request)
    if not lines.is_thinned:
        return f"{_describe_largest(request.top)} {of_each}" if request.top else ""
    heads = max_heads_per_query(run, request)
    strongest = f", in the {heads} strongest heads per query" if heads else f" {of_each}"
    counts = f"{len(lines):,} of {count_allowed_pairs(run, request):,} lines"
    return f"{counts}: {_describe_largest(request.drawn)}{strongest}"


def _build_notes(run: Run, request: LineRequest, counted: str) -> tuple[str, ...]:
    """Describe the drawn values, unless they are plain weights, and the options of the lines."""
    qualifier, notes = run.trace.weights_qualifier(request.stage), []
    if request.lens is not WeightTransform.PLAIN or qualifier:
        notes.append(", ".join(filter(None, (_NUMBER_NAMES[request.lens], qualifier))))
    if counted:
        notes.append(counted)
    if request.threshold:
        notes.append(f"{_NUMBER_NAMES[request.lens]} ≥ {request.threshold:g}")
    if request.limits is ColourLimits.ROW:
        notes.append("opacity relative to each query’s largest weight")
    return tuple(notes)


def _describe_limit_scope(request: LineRequest) -> str:
    return "per query and head" if len(request.heads) > 1 else "per query"


def _describe_largest(count: int) -> str:
    return f"the {count} largest" if count > 1 else "the largest"


def _highlight_lines(source: LineSource, panel: LinePanel, cursor: CellCursor) -> LinePanel:
    """Highlight the lines of the hovered cell or, without one, of the pinned cell."""
    plain = replace(
        panel,
        query=cursor.query,
        key=cursor.key,
        pinned=cursor.pinned,
        pinned_lines=None,
        highlighted_lines=None,
        highlight_note="",
        cell=None,
        weight=None,
    )
    if panel.message or not (cursor.hovered or cursor.pinned):
        return plain
    lines = _lines_of_cursor(source, cursor)
    if panel.tokens is not None and not len(lines):  # the highlighted token has no row
        return plain
    pinned_lines: SelectedLines | None = lines
    if cursor.hovered:
        pinned = create_cursor_on_cell(source.resolved, None, cursor.pinned)
        pinned_lines = _lines_of_cursor(source, pinned) if cursor.pinned else None
    cell = _highlighted_cell(source, cursor)
    weight, strength = source.weight_and_strength_of_cell(cell.place) if cell else (None, 0.0)
    return replace(
        plain,
        pinned_lines=pinned_lines,
        highlighted_lines=lines,
        highlight_note=f"only the {len(lines)} largest are highlighted" if lines.is_thinned else "",
        cell=cell,
        weight=weight,
        strength=strength,
    )


def _lines_of_cursor(source: LineSource, cursor: CellCursor) -> SelectedLines:
    """Return the lines of a cell's query, or of its key if the key token was pointed at."""
    is_by_key = (cursor.hovered or cursor.pinned) in source.resolved.view.lines.by_key
    if cursor.query is not None and not is_by_key:
        return source.select_lines(LineViewToken(LineViewSide.QUERY, cursor.query))
    if cursor.key is None:
        return create_empty_selected_lines()
    return source.select_lines(LineViewToken(LineViewSide.KEY, cursor.key))


def _highlighted_cell(source: LineSource, cursor: CellCursor) -> Cell | None:
    """Return the cell of the drawn stage with the query and key of the highlighted cell."""
    cell = cursor.hovered or cursor.pinned
    if cell is None or cell.head is None or source.run.trace.stage(cell.stage).dims[-1] != "key":
        return None
    return Cell(source.request.stage, cell.place)


PANEL = PanelSpec(
    LINES_PANEL,
    lambda resolved, inputs, previous: present_lines(
        resolved, inputs.panel(BOARD_CONTENTS).cursor, previous
    ),
    None,
    LINES_PANEL.name,
    prefetch_key=line_selection.prefetch_key,
    prefetch=partial(prefetch_without_panel, line_selection.prefetch),
    is_refined=True,
)
