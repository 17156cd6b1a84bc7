"""Presenter of the mask editor, including changed cells that have not been computed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.masks import MASKED_STAGES, MaskingSpec, allowed
from visualizer.attention.roles import Role
from visualizer.attention.spec import BooleanMatrix
from visualizer.attention.stages import has_forbidden_cells
from visualizer.errors import InputError
from visualizer.features.mask_editor.brush_masks import mask_of_brush, uncut_cells
from visualizer.format import format_count
from visualizer.heatmap.board import MaskChangedCells, stage_and_side
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import any_in_blocks, masked_cells
from visualizer.models.model_source import describe_cuts
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.resolved_view import PoolingExtent
from visualizer.session.screen import PanelId
from visualizer.session.view_options import MaskPattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace
    from visualizer.heatmap.board import Board, DrawnStage, Heatmap, StageSide
    from visualizer.models.model_source import ModelSource
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view_options import MaskEditState


HINT = "Editing the mask: click, drag, or press X; press Esc to finish"
MAX_EDITABLE_MASK_TOKENS = 10_000
"""Maximum number of tokens for which a mask matrix is built."""
TEXT_TOO_LONG_ERROR = (
    "the text is too long to edit its mask: choose a mask by name, or shorten the text to {most}"
)
TEXT_TOO_LONG_TO_CUT_ERROR = "the text is too long to cut edges: shorten the text to {most}"
SIZE_MISMATCH = "the mask was drawn for a text of another length: choose a brush to draw a new mask"
CUT_HINT = "Cutting edges: click, drag, or press X; press Esc to finish"
PANEL_REQUIRED = "Show the scores or the weights to edit their cells"


class MaskEditPanel(Struct, frozen=True, eq=False):
    """Contents of the mask editor while the mask is edited.

    Parameters
    ----------
    tokens : int
        Number of tokens of the longest text, which is also the maximum parameter of a brush.
    brush : MaskPattern or None
        The brush that produces the current mask; None if no brush does.
    notes : tuple of str
        Notes on the mask.
    targets : frozenset of StageSide
        The panels that can be edited.
    pending_cells : dict
        The changed cells that these panels do not show yet.
    layer : int or None
        The number of the shown layer in the model if edges are cut; None for the mask of a module.
    heads : tuple of int
        The shown heads of this layer.
    allowed : ndarray or None
        The cells that the model itself allows, [query, key].
    is_too_long : bool
        Whether the text is too long for any mask matrix, including those of the brushes.
    """

    state: MaskEditState
    tokens: int
    brush: MaskPattern | None
    notes: tuple[str, ...]
    targets: frozenset[StageSide]
    pending_cells: Mapping[DrawnStage, MaskChangedCells]
    layer: int | None = None
    heads: tuple[int, ...] = ()
    allowed: np.ndarray | None = None
    is_too_long: bool = False

    @property
    def status(self) -> str:
        """The hint and the notes; only the notes if the text is too long to edit its mask."""
        if self.is_too_long:
            return "  ·  ".join(self.notes)
        return "  ·  ".join((HINT if self.layer is None else CUT_HINT, *self.notes))


def current_mask(document: Document, tokens: int) -> BooleanMatrix | None:
    """Return the current mask as a matrix, or None if its size does not fit the text."""
    try:
        return BooleanMatrix.from_array(allowed(document.spec, tokens))
    except InputError:
        return None


def is_same_text(document: Document, computed: Document | None) -> bool:
    """Return whether the computed document has the same text; its mask may differ."""
    names = ("text", "tokenizer", "lines")
    return computed is not None and all(
        document.get_setting(it) == computed.get_setting(it) for it in names
    )


# ------------------------------------------------------------------------------ showing


MASK_EDIT_PANEL: PanelId[MaskEditPanel | None] = PanelId("Painting")


def present_mask_edit(
    resolved: ResolvedView, board: Board, refused: InputError | None = None
) -> MaskEditPanel | None:
    """Present the edited mask or the cut edges on the heatmaps of the last run.

    Parameters
    ----------
    refused : InputError, optional
        The reason why the document could not be computed.
    """
    run, document, state = resolved.run, resolved.document, resolved.view.painting
    if state.is_on and document.model:
        return _present_cut_edges(resolved, board, document.model, refused)
    if not (state.is_on and run.trace.has_module and document.has_module):
        return None
    is_shown = is_same_text(document, resolved.computed)
    tokens = run.trace.query_count if is_shown else document.max_text_tokens
    if run.trace.is_blockwise or tokens > MAX_EDITABLE_MASK_TOKENS:
        most = (
            min(MAX_EDITABLE_MASK_TOKENS, run.max_full_matrix_tokens)
            if run.trace.is_blockwise
            else MAX_EDITABLE_MASK_TOKENS
        )
        note = TEXT_TOO_LONG_ERROR.format(most=format_count(most, "token"))
        return MaskEditPanel(state, tokens, None, (note,), frozenset(), {}, is_too_long=True)
    mask = current_mask(document, tokens)
    if mask is None or not is_shown:
        unfit = () if mask else (SIZE_MISMATCH,)
        return MaskEditPanel(state, tokens, None, unfit, frozenset(), {})
    panels = {
        (*stage_and_side(panel), panel.leading): panel
        for panel in board.heatmaps
        if _is_editable_panel(panel, resolved.hidden_stages)
    }
    spec = replace(document.spec, lengths=run.trace.spec.lengths)
    pending_by_panel = {
        drawn: _pending_cells(spec, tokens, panel, run.trace) for drawn, panel in panels.items()
    }
    fresh = {drawn: cells for drawn, cells in pending_by_panel.items() if cells}
    targets = frozenset(stage_and_side(panel) for panel in panels.values())
    notes = _describe_mask(mask, list(panels.values()))
    return MaskEditPanel(state, tokens, _find_matching_brush(mask, state), notes, targets, fresh)


def _present_cut_edges(
    resolved: ResolvedView, board: Board, model: ModelSource, refused: InputError | None
) -> MaskEditPanel | None:
    run, state = resolved.run, resolved.view.painting
    trace, reading = run.trace, run.reading
    if reading is None or not reading.are_heads_switchable or not run.has_same_keys:
        return None
    tokens = trace.query_count
    layer = reading.layers[trace.axis_position("layer", resolved.leading)]
    if not is_same_text(resolved.document, resolved.computed):
        return MaskEditPanel(state, tokens, None, (), frozenset(), {}, layer)
    if tokens > MAX_EDITABLE_MASK_TOKENS:  # not even a temporary matrix is built
        note = TEXT_TOO_LONG_TO_CUT_ERROR.format(
            most=format_count(MAX_EDITABLE_MASK_TOKENS, "token")
        )
        return MaskEditPanel(state, tokens, None, (note,), frozenset(), {}, layer, is_too_long=True)
    allowed = trace.allowed_mask(Role.WEIGHTS, resolved.leading)
    targets, fresh = set(), {}
    for panel in board.heatmaps:
        if _is_editable_panel(panel, resolved.hidden_stages) and panel.head is not None:
            targets.add(stage_and_side(panel))
            cells = uncut_cells(allowed, model.cut_cells_by_head.get((layer, panel.head), ()))
            pending = _pending_cuts(panel, cells) if panel.stage in MASKED_STAGES else None
            if pending:
                fresh[*stage_and_side(panel), panel.leading] = pending
    notes = [] if targets else [PANEL_REQUIRED]
    if refused and refused.field == "cuts":
        notes.append(refused.sentence)
    elif model.cuts:
        notes.append(f"{describe_cuts(model.cut_cells_by_head)} cut")
    return MaskEditPanel(
        state,
        tokens,
        None,
        tuple(notes),
        frozenset(targets),
        fresh,
        layer,
        resolved.heads,
        allowed,
    )


def _pending_cuts(panel: Heatmap, uncut: np.ndarray) -> MaskChangedCells | None:
    """Return the cells where `uncut` [query, key] differs from the panel, or None if none do."""
    extent = _pooling_extent_of_panel(panel)
    is_uncut = any_in_blocks(uncut, panel.rows.block, panel.columns.block)[extent.drawn_slices]
    return _find_changed_cells(panel, ~is_uncut)


def _pooling_extent_of_panel(panel: Heatmap) -> PoolingExtent:
    blocks = panel.rows.block, panel.columns.block
    return PoolingExtent(blocks, panel.rows.part, panel.columns.part, panel.side)


def _find_changed_cells(panel: Heatmap, now: np.ndarray) -> MaskChangedCells | None:
    """Return the cells that are newly forbidden or newly allowed, or None if there are none."""
    before = panel.forbidden
    if before is None:
        before = np.zeros(panel.values.shape, dtype=bool)
    changed = now != before
    return MaskChangedCells(changed & now, changed & before) if changed.any() else None


def _is_editable_panel(panel: Heatmap, covered: frozenset[str]) -> bool:
    """Return whether a panel shows queries and keys of the current run and is not covered."""
    is_live = panel.part in {ComparisonSide.PLAIN, ComparisonSide.B}
    return panel.columns.name == "key" and is_live and panel.stage not in covered


def _find_matching_brush(mask: BooleanMatrix, state: MaskEditState) -> MaskPattern | None:
    own = (
        brush
        for brush in MaskPattern
        if mask_of_brush(brush, mask.rows, state.brush_parameter(brush)) == mask
    )
    return next(own, None)


def _describe_mask(mask: BooleanMatrix, panels: list[Heatmap]) -> tuple[str, ...]:
    notes = [] if panels else [PANEL_REQUIRED]
    if panels and panels[0].is_pooled:
        notes.append(f"{panels[0].rows.block} × {panels[0].columns.block} blocks")
    empty = np.flatnonzero(~mask.to_array().any(axis=1))
    if len(empty) == 1:
        notes.append(f"query {empty[0] + 1} attends to no key")
    elif len(empty):
        notes.append(f"{len(empty):,} queries attend to no key")
    return tuple(notes)


def _pending_cells(
    spec: AttentionSpec, tokens: int, panel: Heatmap, trace: Trace
) -> MaskChangedCells | None:
    """Return the cells where the mask differs from the panel, or None if none do."""
    now = np.zeros(panel.values.shape, dtype=bool)
    if has_forbidden_cells(spec, panel.stage):
        masking = MaskingSpec.from_spec(spec, panel.stage)
        text = trace.axis_position("text", panel.leading)
        now = masked_cells(masking, (tokens, tokens), text, _pooling_extent_of_panel(panel))
    return _find_changed_cells(panel, now)


PANEL = PanelSpec(
    MASK_EDIT_PANEL,
    lambda resolved, inputs, previous: present_mask_edit(
        resolved, inputs.panel(BOARD_CONTENTS).board, inputs.refused
    ),
    None,
)
