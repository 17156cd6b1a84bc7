"""The mask editor as values: masks of brushes, strokes, and the panel with cells not yet computed.

Sources of the brushes: Raschka 2024, §3.5.1 (causal); Beltagy et al. 2020, "Longformer", §3.1
(window); Raffel et al. 2020, "T5", §3.2.1 and figure 3 (prefix).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, allowed
from visualizer.attention.spec import BooleanMatrix
from visualizer.attention.stages import is_hatched
from visualizer.errors import InputError
from visualizer.heatmap.board_presenter import forbidden_by
from visualizer.heatmap.panel_and_board_types import PendingCells, target_of
from visualizer.session.cell_address import ComparedSide
from visualizer.session.mask_editing_mode_and_brushes import MaskBrush
from visualizer.session.resolved_view import PoolingExtent
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace
    from visualizer.heatmap.panel_and_board_types import Board, Drawn, Heatmap, Target
    from visualizer.session.document import Document
    from visualizer.session.mask_editing_mode_and_brushes import MaskEditState
    from visualizer.session.resolved_view import Resolved

Place = tuple[int, int]
"""A query and a key."""


# ------------------------------------------------------------------------------ brushes


def all_allowed(tokens: int) -> np.ndarray:
    """Every query attends to every key."""
    return np.ones((tokens, tokens), dtype=bool)  # query key


def causal(tokens: int) -> np.ndarray:
    """A query attends to itself and all tokens before."""
    return np.tri(tokens, dtype=bool)  # query key


def window(tokens: int, width: int) -> np.ndarray:
    """A query attends to `width` tokens: itself and those just before."""
    mask: np.ndarray = causal(tokens) & ~np.tri(tokens, k=-width, dtype=bool)  # query key
    return mask


def prefix(tokens: int, length: int) -> np.ndarray:
    """Every query attends to the first `length` tokens; the rest is causal."""
    mask: np.ndarray = causal(tokens) | padding(tokens, length)  # query key
    return mask


def padding(tokens: int, length: int) -> np.ndarray:
    """Every query attends to the first `length` tokens and to no other."""
    return np.broadcast_to(np.arange(tokens) < length, (tokens, tokens))  # query key


@lru_cache(maxsize=16)
def mask_of_brush(brush: MaskBrush, tokens: int, number: int) -> BooleanMatrix:
    """The mask of a brush for a number of tokens."""
    masks = {MaskBrush.WINDOW: window, MaskBrush.PREFIX: prefix, MaskBrush.PADDING: padding}
    if brush in masks:
        return BooleanMatrix.of(masks[brush](tokens, number))
    return BooleanMatrix.of((all_allowed if brush is MaskBrush.ALL else causal)(tokens))


# ------------------------------------------------------------------------------ strokes


def with_stroke(
    mask: BooleanMatrix, cells: Iterable[Place], allow: bool, blocks: tuple[int, int] = (1, 1)
) -> BooleanMatrix:
    """Allow or forbid the cells of a stroke; in a pooled picture, the whole block of each."""
    painted = mask.array()  # query key
    for query, key in cells:
        painted[query : query + blocks[0], key : key + blocks[1]] = allow
    return BooleanMatrix.of(painted)


def is_open(mask: BooleanMatrix, cell: Place, blocks: tuple[int, int] = (1, 1)) -> bool:
    """Whether a cell is drawn as allowed; for a block, whether any of its cells is."""
    query, key = cell
    return bool(mask.array()[query : query + blocks[0], key : key + blocks[1]].any())


def between(start: Place, end: Place, blocks: tuple[int, int] = (1, 1)) -> list[Place]:
    """The drawn cells on a line between two cells, both included, without a gap."""
    down, right = ((to - at) // block for at, to, block in zip(start, end, blocks, strict=True))
    steps = max(abs(down), abs(right))
    shares = [step / max(steps, 1) for step in range(steps + 1)]
    places = [(round(down * share), round(right * share)) for share in shares]
    return [(start[0] + row * blocks[0], start[1] + column * blocks[1]) for row, column in places]


HINT = "Painting the mask: click or drag, or press X; Esc ends"
NO_FIT = "start from a brush: the matrix does not fit the text"
NO_PANEL = "Show the scores or the weights to paint in them"


@dataclass(frozen=True, slots=True, eq=False)
class MaskEditPanel:
    """The mask editor, while the mask is edited.

    Parameters
    ----------
    tokens : int
        The tokens of the longest text, the limit of a brush's parameter.
    brush : MaskBrush or None
        The brush whose mask the current one equals.
    notes : tuple of str
        Notes on the mask.
    targets : frozenset of Target
        The panels that can be edited.
    fresh : dict
        The changed cells that those panels do not show yet.
    """

    state: MaskEditState
    tokens: int
    brush: MaskBrush | None
    notes: tuple[str, ...]
    targets: frozenset[Target]
    fresh: Mapping[Drawn, PendingCells]

    @property
    def says(self) -> str:
        """The hint and the notes."""
        return "  ·  ".join((HINT, *self.notes))


def longest(document: Document) -> int:
    """The number of tokens of the longest text."""
    return max(map(len, document.tokens()), default=0)


def mask_of(document: Document, tokens: int) -> BooleanMatrix | None:
    """The current mask of any kind as a matrix; None where its size differs."""
    try:
        return BooleanMatrix.of(allowed(document.spec, tokens))
    except InputError:
        return None


def is_of_text(document: Document, computed: Document | None) -> bool:
    """Whether the computed document has the same text, though perhaps another mask."""
    names = ("text", "tokenizer", "lines")
    return computed is not None and all(document.get(it) == computed.get(it) for it in names)


# ------------------------------------------------------------------------------ showing


MASK_EDIT: PanelId[MaskEditPanel | None] = PanelId("Painting")


def present_mask_edit(resolved: Resolved, board: Board) -> MaskEditPanel | None:
    """Present the edited mask over the picture of the last run."""
    run, document, state = resolved.run, resolved.document, resolved.view.painting
    if not (state.is_on and run.trace.has_module and document.has_module):
        return None
    is_shown = is_of_text(document, resolved.computed)
    tokens = run.trace.tokens if is_shown else longest(document)
    mask = mask_of(document, tokens)
    if mask is None or not is_shown:
        unfit = () if mask else (NO_FIT,)
        return MaskEditPanel(state, tokens, None, unfit, frozenset(), {})
    shown = {(*target_of(panel), panel.leading): panel for panel in board.heatmaps}
    panels = {drawn: panel for drawn, panel in shown.items() if _is_target(panel, resolved.covered)}
    spec = replace(document.spec, lengths=run.trace.spec.lengths)
    found = {drawn: _fresh(spec, tokens, panel, run.trace) for drawn, panel in panels.items()}
    fresh = {drawn: cells for drawn, cells in found.items() if cells}
    targets = frozenset(target_of(panel) for panel in panels.values())
    notes = _notes(mask, list(panels.values()))
    return MaskEditPanel(state, tokens, _brush(mask, state), notes, targets, fresh)


def _is_target(panel: Heatmap, covered: frozenset[str]) -> bool:
    """Whether a panel has the mask's queries and keys, and shows the current run."""
    is_live = panel.part in {ComparedSide.PLAIN, ComparedSide.B}
    return panel.columns.name == "key" and is_live and panel.stage not in covered


def _brush(mask: BooleanMatrix, state: MaskEditState) -> MaskBrush | None:
    own = (
        brush for brush in MaskBrush if mask_of_brush(brush, mask.rows, state.number(brush)) == mask
    )
    return next(own, None)


def _notes(mask: BooleanMatrix, panels: list[Heatmap]) -> tuple[str, ...]:
    notes = [] if panels else [NO_PANEL]
    if panels and panels[0].is_pooled:
        notes.append(f"{panels[0].rows.block} × {panels[0].columns.block} blocks")
    empty = np.flatnonzero(~mask.array().any(axis=1))
    if len(empty) == 1:
        notes.append(f"query {empty[0] + 1} reads nothing")
    elif len(empty):
        notes.append(f"{len(empty):,} queries read nothing")
    return tuple(notes)


def _fresh(spec: AttentionSpec, tokens: int, panel: Heatmap, trace: Trace) -> PendingCells | None:
    """The cells in which the mask differs from what a panel shows; None where it does not."""
    then = panel.forbidden
    if then is None:
        then = np.zeros(panel.values.shape, dtype=bool)
    now = np.zeros_like(then)
    if is_hatched(spec, panel.stage):
        blocks = panel.rows.block, panel.columns.block
        drawn = PoolingExtent(blocks, panel.rows.part, panel.columns.part, panel.side)
        masking = Masking.of(spec, panel.stage)
        now = forbidden_by(masking, tokens, trace.at("text", panel.leading), *blocks)[drawn.cells]
    changed = now != then
    return PendingCells(changed & now, changed & then) if changed.any() else None
