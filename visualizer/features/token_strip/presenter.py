"""Presenter of the token strip: tokens coloured by the weights of selected queries or keys.

The weights are those of the current head, or the mean over all heads.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from html import escape, unescape
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.display_transforms import HeadAggregate
from visualizer.features.token_strip.token_weight_sums import (
    MAX_GUI_THREAD_WEIGHTS,
    WeightSumRequest,
    known_sums,
    read_more_sums,
)
from visualizer.format import format_count, shorten
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_cursor import create_cursor_on_cell, present_cursor
from visualizer.heatmap.colour_range import (
    AutomaticColourRange,
    end_with_tolerance,
    find_cached_range,
)
from visualizer.language.tokenizers import visible_tokens
from visualizer.session.cell_address import Cell
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.screen import PanelId
from visualizer.session.timeline import StepSize
from visualizer.session.token_selection import TokenRole, find_matching_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.attention.captured_attention import ImagePatches
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View

READ_BATCH_S = 0.1
"""Maximum duration of one batch of reads, in seconds; the worker then refines heatmaps again."""
MAX_NAMED_TOKENS = 3
"""Maximum number of tokens that a sentence names; if there are more, it gives only their number."""


class TokenWeights(Struct, frozen=True, eq=False):
    """Weights of all tokens: from the selected queries, or to the selected keys.

    Parameters
    ----------
    values : numpy.ndarray
        One value per token: a weight, or a sum of weights.
    forbidden : numpy.ndarray
        Tokens for which the mask forbids every cell with the selected tokens.
    map : str
        The colour map.
    low, high : float
        The limits of the colour bar.
    is_exceeded : bool
        Whether a value lies beyond the limits.
    sentence : str
        A description of the weights (HTML).
    qualifier : str
        Whether the weights are taken before or after a step, if the trace contains both.
    known : range
        The tokens with known values; the values of a long text are read incrementally.
    """

    values: np.ndarray
    forbidden: np.ndarray
    map: str
    low: float
    high: float
    sentence: str
    known: range = range(sys.maxsize)
    qualifier: str = ""
    is_exceeded: bool = False

    def __eq__(self, other: object) -> bool:
        """Return whether both show the same values in the same colours."""
        if not isinstance(other, TokenWeights):
            return NotImplemented
        fields = (self.map, self.low, self.high, self.sentence, self.known)
        others = (other.map, other.low, other.high, other.sentence, other.known)
        arrays = ((self.values, other.values), (self.forbidden, other.forbidden))
        return fields == others and all(
            one is another or np.array_equal(one, another) for one, another in arrays
        )

    def __ne__(self, other: object) -> bool:
        return not self == other  # Struct's own __ne__ compares identities

    __hash__ = None  # type: ignore[assignment]

    def largest_tokens(self, count: int) -> tuple[int, ...]:
        """Return the tokens with the largest absolute values, largest first; zeros are excluded."""
        sizes = np.where(self.forbidden | ~np.isfinite(self.values), 0, np.abs(self.values))
        sizes[self.known.stop :] = 0
        first = np.argsort(-sizes, kind="stable")[:count]
        return tuple(first[sizes[first] > 0].tolist())

    @property
    def plain_sentence(self) -> str:
        """The sentence without markup."""
        return unescape(self.sentence.replace("<b>", "").replace("</b>", ""))


class TokenPanel(Struct, frozen=True):
    """The token strip of the current text.

    Parameters
    ----------
    query, key : int or None
        The cursor's tokens.
    chosen : frozenset of int
        The tokens selected in the strip.
    subjects : frozenset of int
        The tokens for which weights are shown: the selected ones or, if none is selected,
        the cursor's token.
    weights : TokenWeights or None
        The weights that determine the colours; None without subjects, or while the weights
        are covered.
    sought : str
        The search text.
    found : str
        A description of the matches: their number, and the number of the current one.
    note : str
        The reason why no weights are shown; empty if weights are shown.
    special : mapping
        The purpose of each special token of a model, by position.
    patches : ImagePatches or None
        The input image, if the tokens are its patches; None for a text.
    """

    labels: tuple[str, ...] = ()
    query: int | None = None
    key: int | None = None
    padding: int = 0
    role: TokenRole = TokenRole.QUERY
    chosen: frozenset[int] = frozenset()
    subjects: frozenset[int] = frozenset()
    weights: TokenWeights | None = None
    sought: str = ""
    found: str = ""
    note: str = ""
    special: Mapping[int, str] = {}
    patches: ImagePatches | None = None


TOKENS_PANEL: PanelId[TokenPanel] = PanelId("Tokens")


def present_tokens(resolved: ResolvedView, cursor: CellCursor) -> TokenPanel:
    """Present the tokens, with marks at the cursor or, without one, at the cell in playback."""
    run, selection, labels = resolved.run, resolved.view.tokens, _token_labels(resolved)
    cursor, cell = _cursor_and_cell(resolved, cursor)
    request = _weight_request(resolved, cursor, cell)
    is_query, are_apart = request.are_queries, not run.has_same_keys
    lengths = run.trace.spec.lengths
    padding = (
        len(labels) - lengths[run.trace.axis_position("text", resolved.leading)] if lengths else 0
    )
    is_seen = _has_weights(resolved, request)
    weights = _present_weights(resolved, request) if is_seen else None
    note = ""
    if is_seen and weights is None:
        note = f"{_describe_weights(labels, request)}: computing…"
    return TokenPanel(
        labels,
        None if are_apart and not is_query else cursor.query,
        None if are_apart and is_query else cursor.key,
        padding,
        selection.role,
        selection.tokens_below(len(labels)),
        request.subjects,
        weights,
        selection.sought,
        _describe_matches(resolved.view, labels),
        _describe_role(run, selection.role) if are_apart else note,
        dict(run.reading.special) if run.reading and run.has_same_keys else {},
        run.patches,
    )


def _token_labels(resolved: ResolvedView) -> tuple[str, ...]:
    return visible_tokens(_tokens(resolved))


def _tokens(resolved: ResolvedView) -> tuple[str, ...]:
    axis = "query" if resolved.view.tokens.role is TokenRole.QUERY else "key"
    return resolved.run.axis_tokens(resolved.leading, axis)


def _cursor_and_cell(resolved: ResolvedView, cursor: CellCursor) -> tuple[CellCursor, Cell | None]:
    """Return the cursor and its cell: those of the pointer or, without one, of the current step."""
    cell, step_cell = resolved.hovered_or_pinned_cell, resolved.described_step_cell
    if cell is None and step_cell and resolved.view.playhead.grain is not StepSize.STAGE:
        return create_cursor_on_cell(resolved, step_cell, None), step_cell
    return cursor, cell


def _weight_request(
    resolved: ResolvedView, cursor: CellCursor, cell: Cell | None
) -> WeightSumRequest:
    """Return the request for the weights to show.

    Parameters
    ----------
    cell : Cell or None
        The current cell; its head is used while no token is selected.
    """
    run, selection = resolved.run, resolved.view.tokens
    is_query = selection.role is TokenRole.QUERY
    chosen = selection.tokens_below(len(_tokens(resolved)))
    at = cursor.query if is_query else cursor.key
    subjects = chosen or (frozenset() if at is None else frozenset({at}))
    cell = resolved.pinned if chosen else cell
    head = head_of_cell(resolved, cell)
    if head is None and run.patches:
        head = resolved.caption_head  # a click shows the same head as pointing at a patch
    stage, is_selection = resolved.weights_stage(cell), bool(selection.chosen)
    return WeightSumRequest(
        run.trace, stage, resolved.leading, head, subjects, is_selection, is_query
    )


def hovered_cell_of_token(resolved: ResolvedView, token: int) -> Cell | None:
    """Return the cell to mark as hovered while the pointer is on a token.

    If one token is selected, this is the cell of both tokens; otherwise, it is the cell with the
    largest weight in the row or column of the token. None if the weights are covered, or if the
    queries and the keys are different tokens.
    """
    run, selection = resolved.run, resolved.view.tokens
    stage = resolved.weights_stage(resolved.pinned)
    is_known = 0 <= token < len(run.axis_tokens(resolved.leading)) and run.has_same_keys
    if not is_known or stage in resolved.hidden_stages:
        return None
    is_query, head = selection.role is TokenRole.QUERY, resolved.caption_head
    if len(selection.chosen) == 1:
        (chosen,) = selection.chosen
        return Cell(stage, (head, chosen, token) if is_query else (head, token, chosen))
    cells = (token, slice(None)) if is_query else (slice(None), token)
    values = run.trace.read(stage, (*resolved.leading, head, *cells))
    if not np.isfinite(values).any():
        return None
    other = int(np.where(np.isfinite(values), values, -np.inf).argmax())
    return Cell(stage, (head, token, other) if is_query else (head, other, token))


def _describe_role(run: Run, role: TokenRole) -> str:
    if run.is_continuation:
        return (
            "These are the queries. The keys also include the tokens before them."
            if role is TokenRole.QUERY
            else "These are the keys. The queries are the last of these tokens."
        )
    here, there = ("queries", "keys") if role is TokenRole.QUERY else ("keys", "queries")
    return f"These are the {here}. The {there} are different tokens; see the heatmaps."


def _has_weights(resolved: ResolvedView, request: WeightSumRequest) -> bool:
    """Return whether there are weights to show."""
    is_square = resolved.run.has_same_keys
    return bool(request.subjects) and is_square and not _are_weights_hidden(resolved, request)


def _are_weights_hidden(resolved: ResolvedView, request: WeightSumRequest) -> bool:
    """Return whether the weights are hidden for a prediction or not reached by playback yet."""
    last = len(_tokens(resolved)) - 1
    # Of all rows, playback reaches the last one last.
    row = max(request.subjects) if request.are_queries else last
    cell = Cell(request.stage, (request.trace.spec.heads - 1, row, last))
    return request.stage in resolved.hidden_stages or resolved.is_computed_later(cell)


def _present_weights(resolved: ResolvedView, request: WeightSumRequest) -> TokenWeights | None:
    """Return the weights that are known so far, or None if no weights are known."""
    sums = known_sums(request)
    if sums is None:
        return None
    values, forbidden = sums.values, sums.forbidden
    finite = values[np.isfinite(values)]
    low, largest = float(finite.min(initial=0)), float(np.abs(finite).max(initial=0))
    chosen = resolved.view.colouring
    high = largest or 1.0
    if len(request.subjects) == 1:
        high = _automatic_panel_range(request.trace, request.stage, request.leading, low).end
    colours = (chosen.diverging, -high, high) if low < 0 else (chosen.sequential, 0.0, high)
    says, known = _describe_weights(_token_labels(resolved), request), range(len(values))
    if not sums.is_complete:
        says += f"; {sums.read:,} of {sums.rows:,} rows computed so far"
        known = known if request.are_queries else range(sums.read)
    qualifier = request.trace.weights_qualifier(request.stage)
    return TokenWeights(
        values, forbidden, *colours, says, known, qualifier, largest > end_with_tolerance(high)
    )


def _automatic_panel_range(
    trace: Trace, stage: str, leading: LeadingIndex, low: float = 0.0
) -> AutomaticColourRange:
    """Return the automatic range of the panels that show the weights.

    Parameters
    ----------
    low : float
        The smallest weight; if it is negative, the range is that of signed values.
    """
    shown, is_weights = [(trace, trace.cached_stage_tensor(stage))], trace.stage(stage).is_weights
    return find_cached_range(shown, [leading], stage * is_weights, is_weights and low >= 0)


def _describe_weights(labels: tuple[str, ...], request: WeightSumRequest) -> str:
    count, trace, is_query = len(request.subjects), request.trace, request.are_queries
    few = sorted(request.subjects) if count <= MAX_NAMED_TOKENS else []
    names = [f"<b>{escape(shorten(labels[at]))}</b>" for at in few]
    named = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    named = named or format_count(count, "token")
    parts = [f"Attention {'from' if is_query else 'to'} {named}"]
    if not trace.stage(request.stage).is_weights:
        parts = [f"Scores with {named} as {'query' if is_query else 'key'}"]
    if count > 1:
        parts.append(f"Σ of {count:,} {'queries' if is_query else 'keys'}")
    heads = trace.spec.heads
    if heads > 1:
        mean = f"mean of {heads} heads"
        parts.append(mean if request.head is None else f"head {request.head + 1}")
    return ", ".join(filter(None, (*parts, trace.weights_qualifier(request.stage))))


def _describe_matches(view: View, labels: tuple[str, ...]) -> str:
    selection = view.tokens
    if not selection.sought:
        return ""
    count = len(find_matching_tokens(labels, selection.sought))
    if selection.match is None or not count:
        return f"{count:,} found" if count else "no matches"
    return f"{selection.match % count + 1:,} of {count:,}"


def head_of_cell(resolved: ResolvedView, cell: Cell | None) -> int | None:
    """Return the head of a cell or, without one, of the flow board; None stands for all heads."""
    if resolved.run.trace.spec.heads == 1:
        return 0
    if cell and (cell.head is not None or cell.fold):
        return cell.head
    return resolved.flow.head if resolved.flow else None


def prefetch_key(resolved: ResolvedView) -> Hashable:
    """Return a key for the data that the selected tokens need, or None if none are selected."""
    if not resolved.view.tokens.chosen:
        return None
    is_folded = head_of_cell(resolved, resolved.pinned) is None
    return resolved.weights_stage(resolved.pinned), is_folded


def prefetch(resolved: ResolvedView) -> None:
    """Prepare the labels and the values of the selected tokens; called on the worker."""
    trace = resolved.run.trace
    for axis in ("query", "key"):
        visible_tokens(resolved.run.axis_tokens(resolved.leading, axis))
    if resolved.view.tokens.chosen:
        stage = resolved.weights_stage(resolved.pinned)
        _automatic_panel_range(trace, stage, resolved.leading)
        if head_of_cell(resolved, resolved.pinned) is None:
            trace.displayed_tensor(stage, by=HeadAggregate.MEAN)


def are_weights_read(resolved: ResolvedView) -> bool:
    """Return whether all shown weights have been read; those of long texts are read in parts."""
    trace = resolved.run.trace
    if (
        not trace.is_blockwise
        and trace.spec.heads * math.prod(trace.query_key_counts) <= MAX_GUI_THREAD_WEIGHTS
    ):
        return True
    request = _weight_request(resolved, *_cursor_and_cell(resolved, present_cursor(resolved)))
    if not _has_weights(resolved, request) or not request.needs_worker:
        return True
    sums = known_sums(request)
    return sums is not None and sums.is_complete


def read_more_weights(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Read more of the shown weights on the worker, for `READ_BATCH_S` or until `is_over()`."""
    if are_weights_read(resolved):
        return
    end = monotonic() + READ_BATCH_S
    request = _weight_request(resolved, *_cursor_and_cell(resolved, present_cursor(resolved)))
    _automatic_panel_range(request.trace, request.stage, request.leading)
    read_more_sums(request, lambda: is_over() or monotonic() > end)


PANEL = PanelSpec(
    TOKENS_PANEL,
    lambda resolved, inputs, previous: present_tokens(
        resolved, inputs.panel(BOARD_CONTENTS).cursor
    ),
    TokenPanel(),
    prefetch_key=prefetch_key,
    prefetch=partial(prefetch_without_panel, prefetch),
    is_refined=True,
)
