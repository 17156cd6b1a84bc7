"""The mask that is being painted, over a picture that does not show all of it yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.choices import BooleanMatrix
from visualizer.attention.masks import Masking, allowed
from visualizer.attention.spec import InputError
from visualizer.attention.stages import is_hatched
from visualizer.state.brushes import Brush, started
from visualizer.state.extent import Look
from visualizer.state.panel import forbidden_by
from visualizer.state.screen import PanelId
from visualizer.state.view import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.brushes import PaintLook
    from visualizer.state.document import Document
    from visualizer.state.panels import Board, Heatmap
    from visualizer.state.resolve import Resolved
    from visualizer.state.view import Cell

Target = tuple[str, Part]
"""A stage, and which of a comparison's panels of it."""
Drawn = tuple[str, Part, int]
"""A target, of one text."""
HINT = "Painting the mask: click or drag, or press X; Esc ends"
NO_FIT = "start from a brush: the matrix does not fit the text"
NO_PANEL = "Show the scores or the weights to paint in them"


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
    targets : frozenset of Target
        The panels in which a hand can paint.
    fresh : dict
        What those panels do not show yet, text by text.
    """

    look: PaintLook
    tokens: int
    brush: Brush | None
    notes: tuple[str, ...]
    targets: frozenset[Target]
    fresh: Mapping[Drawn, Fresh]

    @property
    def says(self) -> str:
        """What can be done, and what must be said."""
        return "  ·  ".join((HINT, *self.notes))


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


PAINTING: PanelId[Painting | None] = PanelId("Painting")


def present_painting(resolved: Resolved, board: Board) -> Painting | None:
    """Show the mask that is being painted over the picture of the last run."""
    run, document, look = resolved.run, resolved.document, resolved.view.painting
    if not look.is_on or run.captured or document.captured:
        return None
    is_shown = is_of_text(document, resolved.computed)
    tokens = run.trace.tokens if is_shown else longest(document)
    mask = mask_of(document, tokens)
    if mask is None or not is_shown:
        unfit = () if mask else (NO_FIT,)
        return Painting(look, tokens, None, unfit, frozenset(), {})
    shown = {(*target_of(panel), panel.text): panel for panel in board.heatmaps}
    panels = {drawn: panel for drawn, panel in shown.items() if _is_target(panel, resolved.covered)}
    spec = replace(document.spec, lengths=run.trace.spec.lengths)
    found = {drawn: _fresh(spec, tokens, panel) for drawn, panel in panels.items()}
    fresh = {drawn: cells for drawn, cells in found.items() if cells}
    targets = frozenset(target_of(panel) for panel in panels.values())
    notes = _notes(mask, list(panels.values()))
    return Painting(look, tokens, _brush(mask, look), notes, targets, fresh)


def target_of(panel: Heatmap | Cell) -> Target:
    """Name the panel, of whichever head, that something is or is in."""
    return panel.stage, panel.part


def _is_target(panel: Heatmap, covered: frozenset[str]) -> bool:
    """Whether a panel is of the mask's queries and keys, and of the live numbers."""
    is_live = panel.part in {Part.PLAIN, Part.B}
    return panel.columns.name == "key" and is_live and panel.stage not in covered


def _brush(mask: BooleanMatrix, look: PaintLook) -> Brush | None:
    own = (brush for brush in Brush if started(brush, mask.rows, look.number(brush)) == mask)
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


def _fresh(spec: AttentionSpec, tokens: int, panel: Heatmap) -> Fresh | None:
    """Compare what is forbidden with what a panel shows as forbidden."""
    then = panel.forbidden
    if then is None:
        then = np.zeros(panel.values.shape, dtype=bool)
    now = np.zeros_like(then)
    if is_hatched(spec, panel.stage):
        blocks = panel.rows.block, panel.columns.block
        drawn = Look(blocks, panel.rows.part, panel.columns.part, panel.side)
        masking = Masking.of(spec, panel.stage)
        now = forbidden_by(masking, tokens, panel.text, *blocks)[drawn.cells]
    changed = now != then
    return Fresh(changed & now, changed & then) if changed.any() else None
