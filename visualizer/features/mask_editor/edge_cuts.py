"""Edges of attention that are cut in heads of a model, as matrices of open cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.models.model_source import CutEdges

if TYPE_CHECKING:
    from visualizer.features.mask_editor.brush_masks import Place
    from visualizer.models.model_source import LayerAndHead, ModelSource


def open_cells(allowed: np.ndarray, cut: tuple[Place, ...]) -> np.ndarray:
    """Return which cells a head reads: those that the model allows, without those that are cut."""
    cells: np.ndarray = allowed.copy()  # query key
    within = [place for place in cut if max(place) < len(cells)]
    if within:
        cells[tuple(np.array(within).T)] = False
    return cells


def with_open_cells(
    model: ModelSource, head: LayerAndHead, allowed: np.ndarray, cells: np.ndarray
) -> ModelSource:
    """Cut the cells of a head that the model allows and that are not open.

    Those beyond the text stay as they are.
    """
    beyond = [place for place in model.cut_cells.get(head, ()) if max(place) >= len(allowed)]
    closed = ((query, key) for query, key in np.argwhere(allowed & ~cells).tolist())
    cut = sorted([*closed, *beyond])
    others = [each for each in model.cuts if each.place != head]
    new = [CutEdges(*head, tuple(cut))] if cut else []
    return replace(model, cuts=tuple(sorted([*others, *new], key=lambda each: each.place)))
