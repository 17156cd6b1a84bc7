"""Conversion between a model's cut attention edges and boolean matrices of open cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.models.model_source import CutEdges

if TYPE_CHECKING:
    from visualizer.features.mask_editor.brush_masks import Place
    from visualizer.models.model_source import LayerAndHead, ModelSource


def open_cells(allowed: np.ndarray, cut: tuple[Place, ...]) -> np.ndarray:
    """Return the cells of a head that the model allows and that are not cut."""
    cells: np.ndarray = allowed.copy()  # query key
    within = [place for place in cut if max(place) < len(cells)]
    if within:
        cells[tuple(np.array(within).T)] = False
    return cells


def with_open_cells(
    model: ModelSource, head: LayerAndHead, allowed: np.ndarray, cells: np.ndarray
) -> ModelSource:
    """Cut the cells of a head that the model allows and that are not open.

    Cut cells beyond the end of the text are kept.
    """
    beyond = [place for place in model.cut_cells.get(head, ()) if max(place) >= len(allowed)]
    closed = ((query, key) for query, key in np.argwhere(allowed & ~cells).tolist())
    cut = sorted([*closed, *beyond])
    others = [each for each in model.cuts if each.place != head]
    new = [CutEdges(*head, tuple(cut))] if cut else []
    return replace(model, cuts=tuple(sorted([*others, *new], key=lambda each: each.place)))
