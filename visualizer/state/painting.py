"""The mask by hand: brushes to start from, strokes, and what is painted but not computed yet.

Sources of the brushes: Raschka 2024, §3.5.1 (causal); Beltagy et al. 2020, "Longformer", §3.1
(window); Raffel et al. 2020, "T5", §3.2.1 and figure 3 (prefix).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.choices import BooleanMatrix
from visualizer.attention.masks import Masking, allowed
from visualizer.attention.spec import InputError
from visualizer.attention.stages import is_hatched
from visualizer.state.drawn import drawn_cells, forbidden_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.document import Document
    from visualizer.state.panels import Board, Heatmap

Place = tuple[int, int]
"""A query and a key."""
HINT = "Painting the mask: click or drag; Esc ends"
NO_FIT = "start from a brush: the matrix does not fit the text"
NO_PANEL = "Show the scores or the weights to paint in them"


class Brush(StrEnum):
    """A mask to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class PaintLook:
    """Whether the mask is being painted, and the numbers of the brushes that have one.

    Parameters
    ----------
    window : int
        How many tokens a query reads: itself and those just before.
    prefix : int
        How many tokens at the start every query reads.
    padding : int
        How many tokens are text: those after are padding.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4

    def number(self, brush: Brush) -> int:
        """Give the number of a brush; 0 where it has none."""
        return int(getattr(self, brush, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """Cells of a panel that were painted, and whose numbers are on their way.

    Parameters
    ----------
    forbidden, allowed : numpy.ndarray
        Boolean, in drawn cells: what has become the one and the other.
    """

    forbidden: np.ndarray
    allowed: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Painting:
    """What is shown while the mask is being painted.

    Parameters
    ----------
    tokens : int
        Of the longest text; no number of a brush is larger.
    brush : Brush or None
        The one whose mask it is at present.
    notes : tuple of str
        What must be said of the mask.
    stages : frozenset of str
        Those in whose panels a hand can paint.
    fresh : tuple of (stage, Fresh)
        What the panels do not show yet.
    """

    look: PaintLook
    tokens: int
    brush: Brush | None
    notes: tuple[str, ...]
    stages: frozenset[str]
    fresh: tuple[tuple[str, Fresh], ...] = ()

    @property
    def says(self) -> str:
        """What can be done, and what must be said."""
        return "  ·  ".join((HINT, *self.notes))


# ------------------------------------------------------------------------------ brushes


def all_allowed(tokens: int) -> np.ndarray:
    """Every query reads every key."""
    return np.ones((tokens, tokens), dtype=bool)  # query key


def causal(tokens: int) -> np.ndarray:
    """A query reads itself and all before."""
    return np.tri(tokens, dtype=bool)  # query key


def window(tokens: int, width: int) -> np.ndarray:
    """A query reads so many tokens: itself and those just before."""
    mask: np.ndarray = causal(tokens) & ~np.tri(tokens, k=-width, dtype=bool)  # query key
    return mask


def prefix(tokens: int, length: int) -> np.ndarray:
    """Every query reads the first tokens; those after are read causally."""
    mask: np.ndarray = causal(tokens) | padding(tokens, length)  # query key
    return mask


def padding(tokens: int, length: int) -> np.ndarray:
    """No query reads a key after the first so many."""
    return np.broadcast_to(np.arange(tokens) < length, (tokens, tokens))  # query key


@lru_cache(maxsize=16)
def started(brush: Brush, tokens: int, number: int) -> BooleanMatrix:
    """Give the mask of a brush for a number of tokens."""
    masks = {Brush.WINDOW: window, Brush.PREFIX: prefix, Brush.PADDING: padding}
    if brush in masks:
        return BooleanMatrix.of(masks[brush](tokens, number))
    return BooleanMatrix.of((all_allowed if brush is Brush.ALL else causal)(tokens))


# ------------------------------------------------------------------------------ strokes


def stroked(
    mask: BooleanMatrix, cells: Iterable[Place], allow: bool, blocks: tuple[int, int] = (1, 1)
) -> BooleanMatrix:
    """Allow or forbid the cells of a stroke; of a pooled picture, the whole block of each."""
    painted = mask.array()  # query key
    for query, key in cells:
        painted[query : query + blocks[0], key : key + blocks[1]] = allow
    return BooleanMatrix.of(painted)


def is_open(mask: BooleanMatrix, cell: Place, blocks: tuple[int, int] = (1, 1)) -> bool:
    """Whether a cell is drawn as allowed: of a block, whether any is."""
    query, key = cell
    return bool(mask.array()[query : query + blocks[0], key : key + blocks[1]].any())


def between(start: Place, end: Place, blocks: tuple[int, int] = (1, 1)) -> list[Place]:
    """Give the drawn cells on the way from one to another, both of them too, without a gap."""
    down, right = ((to - at) // block for at, to, block in zip(start, end, blocks, strict=True))
    steps = max(abs(down), abs(right))
    shares = [step / max(steps, 1) for step in range(steps + 1)]
    places = [(round(down * share), round(right * share)) for share in shares]
    return [(start[0] + row * blocks[0], start[1] + column * blocks[1]) for row, column in places]


def longest(document: Document) -> int:
    """Count the tokens of the longest text."""
    return max(map(len, document.tokens()), default=0)


def mask_of(document: Document, tokens: int) -> BooleanMatrix | None:
    """Give the present mask as a matrix, whatever it is; None where it is of another size."""
    try:
        return BooleanMatrix.of(allowed(document.spec, tokens))
    except InputError:
        return None


def is_of_text(document: Document, computed: Document | None) -> bool:
    """Whether the picture is of a document's text, though perhaps not yet of its mask."""
    names = ("text", "tokenizer", "lines")
    return computed is not None and all(document.get(it) == computed.get(it) for it in names)


# ------------------------------------------------------------------------------ showing


def present_painting(
    document: Document,
    computed: Document | None,
    run: Run,
    board: Board,
    look: PaintLook,
    covered: frozenset[str],
) -> Painting | None:
    """Show the mask that is being painted over the picture of the last run."""
    if not look.is_on:
        return None
    is_shown = is_of_text(document, computed)
    tokens = run.trace.tokens if is_shown else longest(document)
    mask = mask_of(document, tokens)
    if mask is None or not is_shown:
        notes = () if mask else (NO_FIT,)
        return Painting(look, tokens, None, notes, frozenset())
    panels = [column[0] for column in board.columns if _is_square(column[0], covered)]
    spec = replace(document.spec, lengths=run.trace.spec.lengths)
    found = ((panel.stage, _fresh(spec, tokens, panel)) for panel in panels)
    fresh = tuple((stage, cells) for stage, cells in found if cells)
    stages = frozenset(panel.stage for panel in panels)
    return Painting(look, tokens, _brush(mask, look), _notes(mask, panels), stages, fresh)


def _is_square(panel: Heatmap, covered: frozenset[str]) -> bool:
    return panel.columns.name == "key" and panel.stage not in covered


def _brush(mask: BooleanMatrix, look: PaintLook) -> Brush | None:
    own = (brush for brush in Brush if started(brush, mask.rows, look.number(brush)) == mask)
    return next(own, None)


def _notes(mask: BooleanMatrix, panels: list[Heatmap]) -> tuple[str, ...]:
    notes = [] if panels else [NO_PANEL]
    if panels and panels[0].is_pooled:
        notes.append(f"in blocks of {panels[0].rows.block} × {panels[0].columns.block}")
    empty = np.flatnonzero(~mask.array().any(axis=1))
    if len(empty) == 1:
        notes.append(f"query {empty[0] + 1} reads nothing")
    elif len(empty):
        notes.append(f"{len(empty):,} queries read nothing")
    return tuple(notes)


def _fresh(spec: AttentionSpec, tokens: int, panel: Heatmap) -> Fresh | None:
    """Compare what is forbidden with what a panel shows as forbidden."""
    then = panel.forbidden
    if then is None:
        then = np.zeros(panel.values.shape, dtype=bool)
    now = np.zeros_like(then)
    if is_hatched(spec, panel.stage):
        blocks = panel.rows.block, panel.columns.block
        masking = Masking.of(spec, panel.stage)
        whole = forbidden_blocks(masking, tokens, panel.text, *blocks)
        parts = zip((panel.rows.part, panel.columns.part), blocks, strict=True)
        now = whole[tuple(drawn_cells(part, block) for part, block in parts)]
    changed = now != then
    return Fresh(changed & now, changed & then) if changed.any() else None
