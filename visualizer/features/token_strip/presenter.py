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
    WeightQuery,
    known_sums,
    read_more_sums,
)
from visualizer.format import format_count, shorten
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_cursor import cursor_on, present_cursor
from visualizer.heatmap.colour_range import AutomaticRange, automatic_range, highest_within
from visualizer.language.tokenizers import visible_tokens
from visualizer.session.cell_address import Cell
from visualizer.session.pane_spec import PanelPresenter, prefetch_only
from visualizer.session.screen import PanelId
from visualizer.session.timeline import StepSize
from visualizer.session.token_selection import TokenRole, find_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.attention.captured_attention import ImagePatches
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View

READ_BATCH_S = 0.1
"""Duration of one batch of reads on the worker, before it returns to refining heatmaps."""
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
        Whether a value lies beyond them.
    sentence : str
        A sentence on what the colours show (HTML).
    qualifier : str
        The step before or after which the weights are taken, if this is ambiguous.
    known : range
        The tokens with known values; those of a long text are read incrementally.
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
        """Whether both show the same numbers in the same colours."""
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

    def largest(self, count: int) -> tuple[int, ...]:
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
        The tokens for which weights are shown: the selected ones, else those of the cursor.
    weights : TokenWeights or None
        The weights behind the colours; None without subjects, or while the weights are covered.
    sought : str
        The search text.
    found : str
        The number of matches and the current one, in words.
    note : str
        Why no weights are shown; empty if they are.
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
    """Present the tokens of a text, marked at the cursor or else at the cell of playback."""
    run, selection, patches = resolved.run, resolved.view.tokens, resolved.run.patches
    cursor, cell = _cursor_with_step(resolved, cursor)
    query = _token_query(resolved, cursor, cell)
    is_query, are_apart, labels = query.are_queries, not run.has_same_keys, query.labels
    lengths = run.trace.spec.lengths
    padding = (
        len(labels) - lengths[run.trace.axis_position("text", resolved.leading)] if lengths else 0
    )
    is_seen = _has_weights(query)
    weights = _present_weights(query) if is_seen else None
    note = f"{_describe_weights(query)}: computing…" if is_seen and weights is None else ""
    return TokenPanel(
        labels,
        None if are_apart and not is_query else cursor.query,
        None if are_apart and is_query else cursor.key,
        padding,
        selection.role,
        query.chosen,
        query.subjects,
        weights,
        selection.sought,
        _describe_matches(resolved.view, labels),
        _describe_role(run, selection.role) if are_apart else note,
        dict(run.reading.special) if run.reading and run.has_same_keys else {},
        patches,
    )


def _cursor_with_step(resolved: ResolvedView, cursor: CellCursor) -> tuple[CellCursor, Cell | None]:
    """Return the cursor and its cell: those of the pointer, or else of the playback step."""
    cell, step_cell = resolved.pointed, resolved.step_cell
    if cell is None and step_cell and resolved.view.playhead.grain is not StepSize.STAGE:
        return cursor_on(resolved, step_cell, None), step_cell
    return cursor, cell


def _token_query(resolved: ResolvedView, cursor: CellCursor, cell: Cell | None) -> TokenQuery:
    """Return the query for the weights to show.

    Parameters
    ----------
    cell : Cell or None
        The current cell; its head is used while no token is selected.
    """
    run, selection = resolved.run, resolved.view.tokens
    is_query = selection.role is TokenRole.QUERY
    labels = visible_tokens(run.words(resolved.leading, "query" if is_query else "key"))
    chosen = selection.trim_to(len(labels))
    at = cursor.query if is_query else cursor.key
    subjects = chosen or (frozenset() if at is None else frozenset({at}))
    cell = resolved.pinned if chosen else cell
    head = head_of_cell(resolved, cell)
    if head is None and run.patches:
        head = resolved.caption_head  # pointing at a patch shows one head, and so does a click
    stage, is_selection = resolved.weights_stage(cell), bool(selection.chosen)
    weights = WeightQuery(
        run.trace, stage, resolved.leading, head, subjects, is_selection, is_query
    )
    return TokenQuery(resolved, labels, chosen, weights)


def cell_of_token(resolved: ResolvedView, token: int) -> Cell | None:
    """Return the cell to hover when the pointer is on a token.

    With one token selected, this is the cell of both tokens; otherwise the largest weight of the
    token's row or column. None if the weights are covered, or if queries and keys differ.
    """
    run, selection = resolved.run, resolved.view.tokens
    stage = resolved.weights_stage(resolved.pinned)
    is_known = 0 <= token < len(run.words(resolved.leading)) and run.has_same_keys
    if not is_known or stage in resolved.hidden_stages:
        return None
    reads, head = selection.role is TokenRole.QUERY, resolved.caption_head
    if len(selection.chosen) == 1:
        (chosen,) = selection.chosen
        return Cell(stage, (head, chosen, token) if reads else (head, token, chosen))
    place = (token, slice(None)) if reads else (slice(None), token)
    values = run.trace.read(stage, (*resolved.leading, head, *place))
    if not np.isfinite(values).any():
        return None
    other = int(np.where(np.isfinite(values), values, -np.inf).argmax())
    return Cell(stage, (head, token, other) if reads else (head, other, token))


def _describe_role(run: Run, role: TokenRole) -> str:
    if run.is_continuation:
        return (
            "These are the queries. The keys also include the tokens before them."
            if role is TokenRole.QUERY
            else "These are the keys. The queries are the last of these tokens."
        )
    here, there = ("queries", "keys") if role is TokenRole.QUERY else ("keys", "queries")
    return f"These are the {here}. The {there} are different tokens; see the heatmaps."


class TokenQuery(Struct, frozen=True):
    """A request for weights: the labels, the selected tokens, and the weights to add up."""

    resolved: ResolvedView
    labels: tuple[str, ...]
    chosen: frozenset[int]
    weights: WeightQuery

    @property
    def subjects(self) -> frozenset[int]:
        return self.weights.subjects

    @property
    def stage(self) -> str:
        return self.weights.stage

    @property
    def head(self) -> int | None:
        return self.weights.head

    @property
    def are_queries(self) -> bool:
        return self.weights.are_queries


def _has_weights(query: TokenQuery) -> bool:
    """Whether there are weights to show."""
    is_square = query.resolved.run.has_same_keys
    return bool(query.subjects) and is_square and not _is_hidden(query)


def _is_hidden(query: TokenQuery) -> bool:
    """Whether the weights are covered by a prediction or not yet reached by playback."""
    resolved, last = query.resolved, len(query.labels) - 1
    row = (
        max(query.subjects) if query.are_queries else last
    )  # playback reaches the other rows first
    heads = resolved.run.trace.spec.heads
    is_later = resolved.is_computed_later(Cell(query.stage, (heads - 1, row, last)))
    return query.stage in resolved.hidden_stages or is_later


def _present_weights(query: TokenQuery) -> TokenWeights | None:
    """Return the weights known so far; None if none are."""
    sums = known_sums(query.weights)
    if sums is None:
        return None
    values, forbidden = sums.values, sums.forbidden
    finite = values[np.isfinite(values)]
    low, largest = float(finite.min(initial=0)), float(np.abs(finite).max(initial=0))
    chosen = query.resolved.view.colouring
    high = largest or 1.0
    if len(query.subjects) == 1:
        high = _panel_range(query.weights.trace, query.stage, query.weights.leading, low).end
    colours = (chosen.diverging, -high, high) if low < 0 else (chosen.sequential, 0.0, high)
    says, known = _describe_weights(query), range(len(values))
    if not sums.is_whole:
        says += f"; {sums.read:,} of {sums.rows:,} rows computed so far"
        known = known if query.are_queries else range(sums.read)
    qualifier = query.resolved.run.trace.weights_qualifier(query.stage)
    return TokenWeights(
        values, forbidden, *colours, says, known, qualifier, largest > highest_within(high)
    )


def _panel_range(
    trace: Trace, stage: str, leading: LeadingIndex, low: float = 0.0
) -> AutomaticRange:
    """Return the automatic range of the panels with the weights.

    Parameters
    ----------
    low : float
        The smallest weight; weights below 0 have the range of signed numbers.
    """
    shown, is_weights = [(trace, trace.cached_stage(stage))], trace.stage(stage).is_weights
    return automatic_range(shown, [leading], stage * is_weights, is_weights and low >= 0)


def _describe_weights(query: TokenQuery) -> str:
    count, trace = len(query.subjects), query.resolved.run.trace
    few = sorted(query.subjects) if count <= MAX_NAMED_TOKENS else []
    names = [f"<b>{escape(shorten(query.labels[at]))}</b>" for at in few]
    named = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    named = named or format_count(count, "token")
    parts = [f"Attention {'of' if query.are_queries else 'to'} {named}"]
    if not trace.stage(query.stage).is_weights:
        parts = [f"Scores with {named} as {'query' if query.are_queries else 'key'}"]
    if count > 1:
        parts.append(f"Σ of {count:,} {'queries' if query.are_queries else 'keys'}")
    heads = trace.spec.heads
    if heads > 1:
        mean = f"mean of {heads} heads"
        parts.append(mean if query.head is None else f"head {query.head + 1}")
    return ", ".join(filter(None, (*parts, trace.weights_qualifier(query.stage))))


def _describe_matches(view: View, labels: tuple[str, ...]) -> str:
    selection = view.tokens
    if not selection.sought:
        return ""
    count = len(find_matches(labels, selection.sought))
    if selection.match is None or not count:
        return f"{count:,} found" if count else "no matches"
    return f"{selection.match % count + 1:,} of {count:,}"


def head_of_cell(resolved: ResolvedView, cell: Cell | None) -> int | None:
    """Return the head of a cell, or the one in front on the flow board; None for all heads."""
    if resolved.run.trace.spec.heads == 1:
        return 0
    if cell and (cell.head is not None or cell.fold):
        return cell.head
    return resolved.flow.head if resolved.flow else None


def prefetch_key(resolved: ResolvedView) -> Hashable:
    """Return what to read for the selected tokens; None without any."""
    if not resolved.view.tokens.chosen:
        return None
    is_folded = head_of_cell(resolved, resolved.pinned) is None
    return resolved.weights_stage(resolved.pinned), is_folded


def prefetch(resolved: ResolvedView) -> None:
    """Prepare the labels and the values of the selected tokens; called on the worker."""
    trace = resolved.run.trace
    for axis in ("query", "key"):
        visible_tokens(resolved.run.words(resolved.leading, axis))
    if resolved.view.tokens.chosen:
        stage = resolved.weights_stage(resolved.pinned)
        _panel_range(trace, stage, resolved.leading)
        if head_of_cell(resolved, resolved.pinned) is None:
            trace.displayed_stage(stage, by=HeadAggregate.MEAN)


def are_weights_read(resolved: ResolvedView) -> bool:
    """Whether all shown weights are read; those of long texts are read incrementally."""
    trace = resolved.run.trace
    if (
        not trace.is_blockwise
        and trace.spec.heads * math.prod(trace.sides) <= MAX_GUI_THREAD_WEIGHTS
    ):
        return True
    query = _token_query(resolved, *_cursor_with_step(resolved, present_cursor(resolved)))
    if not _has_weights(query) or not query.weights.is_long:
        return True
    sums = known_sums(query.weights)
    return sums is not None and sums.is_whole


def read_more_weights(resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
    """Read more of the shown weights on the worker, for `READ_BATCH_S` or until `is_over()`."""
    if are_weights_read(resolved):
        return
    end = monotonic() + READ_BATCH_S
    query = _token_query(resolved, *_cursor_with_step(resolved, present_cursor(resolved)))
    _panel_range(query.weights.trace, query.stage, query.weights.leading)
    read_more_sums(query.weights, lambda: is_over() or monotonic() > end)


PANEL = PanelPresenter(
    TOKENS_PANEL,
    lambda resolved, moment, previous: present_tokens(
        resolved, moment.panel(BOARD_CONTENTS).cursor
    ),
    TokenPanel(),
    prefetch_key=prefetch_key,
    prefetch=partial(prefetch_only, prefetch),
    is_refined=True,
)
