"""The token strip: the sentence, coloured by what some of its tokens read, or by who reads them.

Of which weights it is said who reads whom: of the head looked at, or of all in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import allowed
from visualizer.attention.stages import is_hatched
from visualizer.attention.weight_transforms import HeadAggregate
from visualizer.heatmap.cursor import cursor_on
from visualizer.heatmap.panel_colour_scale import SHORT
from visualizer.language.tokenizers import all_visible
from visualizer.number_format import format_count, shorten
from visualizer.session.cell_address import Cell
from visualizer.session.screen import PanelId
from visualizer.session.timeline import Grain
from visualizer.session.token_selection import TokenRole, matches, runs

if TYPE_CHECKING:
    from visualizer.heatmap.cursor import CellCursor
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.view import View

NAMED = 3
"""So many tokens are named in a sentence; of more, only the number is said."""


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """How much is read of each token, or how much each reads.

    Parameters
    ----------
    values : tuple of float
        One for every token: a weight, or a sum of weights.
    forbidden : tuple of bool
        Tokens that may not be read, or may not read, by any of those that are looked at.
    map : str
        The colour map.
    low, high : float
        The numbers at the ends of its bar.
    says : str
        What is shown (HTML).
    """

    values: tuple[float, ...]
    forbidden: tuple[bool, ...]
    map: str
    low: float
    high: float
    says: str

    @property
    def plain(self) -> str:
        """The sentence without marks."""
        return unescape(self.says.replace("<b>", "").replace("</b>", ""))


@dataclass(frozen=True, slots=True)
class TokenPanel:
    """The token strip, of the text that is looked at.

    Parameters
    ----------
    query, key : int or None
        The tokens that the cursor is on.
    chosen : frozenset of int
        Tokens that were chosen in the strip.
    subjects : frozenset of int
        Whose reading is shown: those chosen, or the cursor's.
    shares : Shares or None
        What the colours are; None where nothing is looked at, or it is not to be seen yet.
    sought : str
        What is looked for.
    found : str
        How many tokens match, and which of them one has gone to, in words.
    part : str
        What there are several of: texts of a batch, or layers that were captured.
    note : str
        Why nothing can be said of who reads whom; empty where it can.
    """

    labels: tuple[str, ...] = ()
    query: int | None = None
    key: int | None = None
    text: int = 0
    texts: int = 1
    padding: int = 0
    role: TokenRole = TokenRole.QUERY
    chosen: frozenset[int] = frozenset()
    subjects: frozenset[int] = frozenset()
    shares: TokenWeights | None = None
    sought: str = ""
    found: str = ""
    part: str = "text"
    note: str = ""


TOKENS: PanelId[TokenPanel] = PanelId("Tokens")


def present_tokens(resolved: Resolved, cursor: CellCursor) -> TokenPanel:
    """Show the tokens of a text under a cursor, or else under the cell that a step is about."""
    cell, step_cell = resolved.pointed, resolved.step_cell
    if cell is None and step_cell and resolved.view.playhead.grain is not Grain.STAGE:
        cell, cursor = step_cell, cursor_on(resolved, step_cell, None)
    return _shown(resolved, cursor, cell)


def _shown(resolved: Resolved, cursor: CellCursor, cell: Cell | None) -> TokenPanel:
    """Show the tokens under a cursor.

    Parameters
    ----------
    cell : Cell or None
        The cell that is looked at, whose head counts while no token is chosen.
    """
    run, view, text, look = resolved.run, resolved.view, resolved.text, resolved.view.tokens
    are_apart = run.words(text, "key") != run.words(text)
    labels = all_visible(run.words(text, "query" if look.role is TokenRole.QUERY else "key"))
    lengths = run.trace.spec.lengths
    padding = len(labels) - lengths[text] if lengths else 0
    chosen = frozenset(at for at in look.chosen if at < len(labels))
    at = cursor.query if look.role is TokenRole.QUERY else cursor.key
    subjects = chosen or (frozenset() if at is None else frozenset({at}))
    head = head_read(resolved, resolved.pinned if chosen else cell)
    asked = TokenQuery(resolved, labels, subjects, head, resolved.read_stage)
    is_seen = bool(subjects) and not are_apart and not _is_hidden(asked)
    return TokenPanel(
        labels,
        None if are_apart and look.role is TokenRole.KEY else cursor.query,
        None if are_apart and look.role is TokenRole.QUERY else cursor.key,
        text,
        len(run.texts),
        padding,
        look.role,
        chosen,
        subjects,
        _shares(asked) if is_seen else None,
        look.sought,
        _found(view, labels),
        run.part,
        _apart(look.role) if are_apart else "",
    )


def _apart(role: TokenRole) -> str:
    here, there = ("queries", "keys") if role is TokenRole.QUERY else ("keys", "queries")
    return f"These are the {here}. The {there} are other tokens: the heatmaps show who reads whom."


@dataclass(frozen=True, slots=True)
class TokenQuery:
    """Whose reading is to be shown, of which stage and head; of no head, the mean of all."""

    resolved: Resolved
    labels: tuple[str, ...]
    subjects: frozenset[int]
    head: int | None
    stage: str

    @property
    def reads(self) -> bool:
        return self.resolved.view.tokens.role is TokenRole.QUERY


def _is_hidden(asked: TokenQuery) -> bool:
    """Whether numbers would be shown that are to be predicted, or that come later in playback."""
    resolved, last = asked.resolved, len(asked.labels) - 1
    rows = asked.subjects if asked.reads else {last}
    heads = resolved.run.trace.spec.heads
    cells = (Cell(asked.stage, (heads - 1, row, last)) for row in rows)
    return asked.stage in resolved.covered or any(resolved.is_later(cell) for cell in cells)


def _shares(asked: TokenQuery) -> TokenWeights:
    values, forbidden = _sums(asked), _forbidden(asked)
    finite = values[np.isfinite(values)]
    low, largest = float(finite.min(initial=0)), float(np.abs(finite).max(initial=0))
    chosen = asked.resolved.view.colouring
    if low < 0:
        colours = (chosen.diverging, -largest, largest)
    else:  # in a longer text nearly all weights are so small that on a scale to 1 all look alike
        high = max(1.0, largest) if len(asked.labels) <= SHORT else largest or 1.0
        colours = (chosen.sequential, 0.0, high)
    return TokenWeights(tuple(values.tolist()), tuple(forbidden.tolist()), *colours, _says(asked))


def _sums(asked: TokenQuery) -> np.ndarray:
    """Add up the rows of the chosen queries, or the columns of the chosen keys, [token]."""
    sums = np.zeros(len(asked.labels))
    for tokens in runs(asked.subjects):
        block = slice(tokens.start, tokens.stop)
        place = (block, slice(None)) if asked.reads else (slice(None), block)
        cells = _read(asked, place)  # [query, key]
        sums += cells.sum(axis=0 if asked.reads else 1, dtype=np.float64)
    return sums


def _read(asked: TokenQuery, place: tuple[slice, slice]) -> np.ndarray:
    trace, index = asked.resolved.run.trace, asked.resolved.index
    if asked.head is not None:
        return trace.read(asked.stage, (*index, asked.head, *place))
    if asked.resolved.view.tokens.chosen:  # so many cells of every head have been folded before
        return trace.seen(asked.stage, by=HeadAggregate.MEAN).read((*index, *place))
    every = trace.read(asked.stage, (*index, slice(None), *place))
    return np.asarray(every.mean(axis=0, dtype=np.float64))


def _forbidden(asked: TokenQuery) -> np.ndarray:
    trace, text = asked.resolved.run.trace, asked.resolved.text
    if not is_hatched(trace.spec, asked.stage):
        return np.zeros(len(asked.labels), dtype=bool)
    cells = allowed(trace.spec, trace.tokens, asked.stage)  # query key
    cells = cells[text, 0] if cells.ndim > 2 else cells
    found = np.zeros(len(asked.labels), dtype=bool)
    for tokens in runs(asked.subjects):
        block = slice(tokens.start, tokens.stop)
        found |= cells[block].any(axis=0) if asked.reads else cells[:, block].any(axis=1)
    return ~found


def _says(asked: TokenQuery) -> str:
    count = len(asked.subjects)
    names = [f"<b>{escape(shorten(asked.labels[at]))}</b>" for at in sorted(asked.subjects)]
    named = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    named = format_count(count, "token") if count > NAMED else named
    verb = "reads" if count == 1 else "read"
    parts = [f"What {named} {verb}" if asked.reads else f"Who reads {named}"]
    if asked.stage == "scores":
        parts = [f"Scores of {named}" if asked.reads else f"Scores for {named}"]
    if count > 1:
        parts.append(f"Σ of {count:,} {'queries' if asked.reads else 'keys'}")
    heads = asked.resolved.run.trace.spec.heads
    if heads > 1:
        mean = f"mean of {heads} heads"
        parts.append(mean if asked.head is None else f"head {asked.head + 1}")
    if asked.stage == "dropped":
        parts.append("after dropout")
    return ", ".join(parts)


def _found(view: View, labels: tuple[str, ...]) -> str:
    look = view.tokens
    if not look.sought:
        return ""
    count = len(matches(labels, look.sought))
    if look.match is None or not count:
        return f"{count:,} found" if count else "none"
    return f"{look.match % count + 1:,} of {count:,}"


def head_read(resolved: Resolved, cell: Cell | None) -> int | None:
    """Give the head that is looked at with a cell; None where it is all of them."""
    if resolved.run.trace.spec.heads == 1:
        return 0
    return cell.head if cell else None


def needs(resolved: Resolved) -> str | None:
    """Name the stage whose heads are folded into one for chosen tokens; mostly there is none."""
    is_folded = head_read(resolved, resolved.pinned) is None and resolved.view.tokens.chosen
    return resolved.read_stage if is_folded else None


def warm(resolved: Resolved) -> None:
    """Fold the heads, where they are needed as one."""
    stage = needs(resolved)
    if stage:
        resolved.run.trace.seen(stage, by=HeadAggregate.MEAN)
