"""The mask editor as a value: the panel, with cells that are not yet computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.masks import Masking, allowed
from visualizer.attention.spec import BooleanMatrix
from visualizer.attention.stages import is_hatched
from visualizer.errors import InputError
from visualizer.features.mask_editor.brush_masks import mask_of_brush
from visualizer.heatmap.forbidden_cells import forbidden_by
from visualizer.heatmap.panel_and_board_types import PendingCells, target_of
from visualizer.session.cell_address import ComparedSide
from visualizer.session.mask_editing_mode_and_brushes import MaskBrush
from visualizer.session.resolved_view import PoolingExtent
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace
    from visualizer.heatmap.panel_and_board_types import Board, Drawn, Heatmap, Target
    from visualizer.session.document import Document
    from visualizer.session.mask_editing_mode_and_brushes import MaskEditState
    from visualizer.session.resolved_view import Resolved


HINT = "Painting the mask: click or drag, or press X; Esc ends"
NO_FIT = "start from a brush: the matrix does not fit the text"
NO_PANEL = "Show the scores or the weights to paint in them"


class MaskEditPanel(Struct, frozen=True, eq=False):
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
    return document.most_tokens


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
        text = trace.at("text", panel.leading)
        now = forbidden_by(masking, (tokens, tokens), text, *blocks)[drawn.cells]
    changed = now != then
    return PendingCells(changed & now, changed & then) if changed.any() else None
