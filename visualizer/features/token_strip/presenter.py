"""The token strip as a value: tokens coloured by the weights of the selected queries or keys.

The weights are those of the current head, or the mean of all heads.
"""

from __future__ import annotations

import sys
from html import escape, unescape
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.heatmap.hovered_or_pinned_cell import cursor_on
from visualizer.heatmap.panel_colour_scale import SHORT
from visualizer.language.tokenizers import all_visible
from visualizer.number_format import format_count, shorten
from visualizer.session.cell_address import Cell
from visualizer.session.screen import PanelId
from visualizer.session.timeline import Grain
from visualizer.session.token_selection_and_search import TokenRole, matches, runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.captured_attention import ImagePatches
    from visualizer.heatmap.hovered_or_pinned_cell import CellCursor
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.view import View

NAMED = 3
"""A sentence names at most this many tokens; of more it gives the number only."""


class TokenWeights(Struct, frozen=True, eq=False):
    """The weight each token receives from the selected queries, or gives to the selected keys.

    Parameters
    ----------
    values : numpy.ndarray
        One for every token: a weight, or a sum of weights.
    forbidden : numpy.ndarray
        Tokens for which the mask forbids every cell with the selected tokens.
    map : str
        The colour map.
    low, high : float
        The limits of the colour bar.
    says : str
        A sentence on what the colours show (HTML).
    known : range
        The tokens whose numbers are known; of a long text they are read one after another.
    """

    values: np.ndarray
    forbidden: np.ndarray
    map: str
    low: float
    high: float
    says: str
    known: range = range(sys.maxsize)

    def __eq__(self, other: object) -> bool:
        """Whether it shows the same numbers in the same colours."""
        if not isinstance(other, TokenWeights):
            return NotImplemented
        fields = (self.map, self.low, self.high, self.says, self.known)
        others = (other.map, other.low, other.high, other.says, other.known)
        arrays = ((self.values, other.values), (self.forbidden, other.forbidden))
        return fields == others and all(
            one is another or np.array_equal(one, another) for one, another in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def plain(self) -> str:
        """The sentence without markup."""
        return unescape(self.says.replace("<b>", "").replace("</b>", ""))


class TokenPanel(Struct, frozen=True):
    """The token strip of the current text.

    Parameters
    ----------
    query, key : int or None
        The cursor's tokens.
    chosen : frozenset of int
        The tokens selected in the strip.
    subjects : frozenset of int
        The tokens whose weights are shown: those selected, else the cursor's.
    weights : TokenWeights or None
        The weights behind the colours; None without subjects, or while the weights are covered.
    sought : str
        The search text.
    found : str
        The number of matches and the current one, in words.
    note : str
        Why there are no weights to show; empty where there are.
    special : mapping
        What special tokens of a model are for, by their places.
    patches : ImagePatches or None
        The image whose patches the tokens are; None of a text.
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


TOKENS: PanelId[TokenPanel] = PanelId("Tokens")


def present_tokens(resolved: Resolved, cursor: CellCursor) -> TokenPanel:
    """Present the tokens of a text, marked by the cursor, or else by the playback step's cell."""
    cell, step_cell = resolved.pointed, resolved.step_cell
    if cell is None and step_cell and resolved.view.playhead.grain is not Grain.STAGE:
        cell, cursor = step_cell, cursor_on(resolved, step_cell, None)
    return _shown(resolved, cursor, cell)


def _shown(resolved: Resolved, cursor: CellCursor, cell: Cell | None) -> TokenPanel:
    """Present the tokens for a cursor.

    Parameters
    ----------
    cell : Cell or None
        The current cell; its head is used while no token is selected.
    """
    run, view, leading, selection = (
        resolved.run,
        resolved.view,
        resolved.leading,
        resolved.view.tokens,
    )
    are_apart = not run.has_same_keys
    labels = all_visible(
        run.words(leading, "query" if selection.role is TokenRole.QUERY else "key")
    )
    lengths = run.trace.spec.lengths
    padding = len(labels) - lengths[run.trace.at("text", leading)] if lengths else 0
    chosen = frozenset(at for at in selection.chosen if at < len(labels))
    at = cursor.query if selection.role is TokenRole.QUERY else cursor.key
    subjects = chosen or (frozenset() if at is None else frozenset({at}))
    patches = run.patches
    head = head_read(resolved, resolved.pinned if chosen else cell)
    if head is None and patches:
        head = resolved.told_head  # pointing at a patch shows one head, and so does a click
    query = TokenQuery(resolved, labels, subjects, head, resolved.read_stage)
    is_seen = bool(subjects) and not are_apart and not _is_hidden(query)
    return TokenPanel(
        labels,
        None if are_apart and selection.role is TokenRole.KEY else cursor.query,
        None if are_apart and selection.role is TokenRole.QUERY else cursor.key,
        padding,
        selection.role,
        chosen,
        subjects,
        _shares(query) if is_seen else None,
        selection.sought,
        _found(view, labels),
        _apart(selection.role) if are_apart else "",
        dict(run.reading.special) if run.reading and run.has_same_keys else {},
        patches,
    )


def cell_of_token(resolved: Resolved, token: int) -> Cell | None:
    """Return the cell that pointing at a token means.

    With one token chosen, it is where the two meet; else where the token reads the most, or is read
    the most. None where that is covered, or keys are other tokens.
    """
    run, stage, selection = resolved.run, resolved.read_stage, resolved.view.tokens
    is_known = 0 <= token < len(run.words(resolved.leading)) and run.has_same_keys
    if not is_known or stage in resolved.covered:
        return None
    reads, head = selection.role is TokenRole.QUERY, resolved.told_head
    if len(selection.chosen) == 1:
        (chosen,) = selection.chosen
        return Cell(stage, (head, chosen, token) if reads else (head, token, chosen))
    place = (token, slice(None)) if reads else (slice(None), token)
    values = run.trace.read(stage, (*resolved.leading, head, *place))
    if not np.isfinite(values).any():
        return None
    other = int(np.where(np.isfinite(values), values, -np.inf).argmax())
    return Cell(stage, (head, token, other) if reads else (head, other, token))


def _apart(role: TokenRole) -> str:
    here, there = ("queries", "keys") if role is TokenRole.QUERY else ("keys", "queries")
    return f"These are the {here}. The {there} are other tokens: the heatmaps show who reads whom."


class TokenQuery(Struct, frozen=True):
    """The request for weights: tokens, stage and head; without a head, the mean of all."""

    resolved: Resolved
    labels: tuple[str, ...]
    subjects: frozenset[int]
    head: int | None
    stage: str

    @property
    def reads(self) -> bool:
        return self.resolved.view.tokens.role is TokenRole.QUERY


def _is_hidden(query: TokenQuery) -> bool:
    """Whether the weights are covered by a prediction or not yet reached by playback."""
    resolved, last = query.resolved, len(query.labels) - 1
    rows = query.subjects if query.reads else {last}
    heads = resolved.run.trace.spec.heads
    cells = (Cell(query.stage, (heads - 1, row, last)) for row in rows)
    return query.stage in resolved.covered or any(resolved.is_later(cell) for cell in cells)


def _shares(query: TokenQuery) -> TokenWeights:
    values, forbidden = _sums(query), _forbidden(query)
    finite = values[np.isfinite(values)]
    low, largest = float(finite.min(initial=0)), float(np.abs(finite).max(initial=0))
    chosen = query.resolved.view.colouring
    if low < 0:
        colours = (chosen.diverging, -largest, largest)
    else:  # in a long text nearly all weights would be indistinguishable on a scale up to 1
        high = max(1.0, largest) if len(query.labels) <= SHORT else largest or 1.0
        colours = (chosen.sequential, 0.0, high)
    return TokenWeights(values, forbidden, *colours, _says(query))


def _sums(query: TokenQuery) -> np.ndarray:
    """The sum of the selected queries' rows, or of the selected keys' columns: [token]."""
    sums = np.zeros(len(query.labels))
    for tokens in runs(query.subjects):
        block = slice(tokens.start, tokens.stop)
        place = (block, slice(None)) if query.reads else (slice(None), block)
        cells = _read(query, place)  # [query, key]
        sums += cells.sum(axis=0 if query.reads else 1, dtype=np.float64)
    return sums


def _read(query: TokenQuery, place: tuple[slice, slice]) -> np.ndarray:
    trace, index = query.resolved.run.trace, query.resolved.leading
    if query.head is not None:
        return trace.read(query.stage, (*index, query.head, *place))
    if query.resolved.view.tokens.chosen:  # the mean of all heads is cached, see `warm`
        return trace.seen(query.stage, by=HeadAggregate.MEAN).read((*index, *place))
    every = trace.read(query.stage, (*index, slice(None), *place))
    return np.asarray(every.mean(axis=0, dtype=np.float64))


def _forbidden(query: TokenQuery) -> np.ndarray:
    trace = query.resolved.run.trace
    if not trace.is_hatched(query.stage, query.resolved.leading, query.head):
        return np.zeros(len(query.labels), dtype=bool)
    cells = trace.allowed(query.stage, query.resolved.leading, query.head)  # query key
    found = np.zeros(len(query.labels), dtype=bool)
    for tokens in runs(query.subjects):
        block = slice(tokens.start, tokens.stop)
        found |= cells[block].any(axis=0) if query.reads else cells[:, block].any(axis=1)
    return ~found


def _says(query: TokenQuery) -> str:
    count, trace = len(query.subjects), query.resolved.run.trace
    names = [f"<b>{escape(shorten(query.labels[at]))}</b>" for at in sorted(query.subjects)]
    named = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    named = format_count(count, "token") if count > NAMED else named
    verb = "reads" if count == 1 else "read"
    parts = [f"What {named} {verb}" if query.reads else f"Who reads {named}"]
    if not trace.stage(query.stage).is_weights:
        parts = [f"Scores of {named}" if query.reads else f"Scores for {named}"]
    if count > 1:
        parts.append(f"Σ of {count:,} {'queries' if query.reads else 'keys'}")
    heads = trace.spec.heads
    if heads > 1:
        mean = f"mean of {heads} heads"
        parts.append(mean if query.head is None else f"head {query.head + 1}")
    if query.stage == trace.dropout_stage:
        parts.append("after dropout")
    return ", ".join(parts)


def _found(view: View, labels: tuple[str, ...]) -> str:
    selection = view.tokens
    if not selection.sought:
        return ""
    count = len(matches(labels, selection.sought))
    if selection.match is None or not count:
        return f"{count:,} found" if count else "none"
    return f"{selection.match % count + 1:,} of {count:,}"


def head_read(resolved: Resolved, cell: Cell | None) -> int | None:
    """The head of a cell; None for all heads."""
    if resolved.run.trace.spec.heads == 1:
        return 0
    return cell.head if cell else None


def needs(resolved: Resolved) -> str | None:
    """The stage whose heads must be averaged for the selected tokens; usually None."""
    is_folded = head_read(resolved, resolved.pinned) is None and resolved.view.tokens.chosen
    return resolved.read_stage if is_folded else None


def warm(resolved: Resolved) -> None:
    """Compute the mean of the heads where it is needed; called on the worker."""
    stage = needs(resolved)
    if stage:
        resolved.run.trace.seen(stage, by=HeadAggregate.MEAN)
