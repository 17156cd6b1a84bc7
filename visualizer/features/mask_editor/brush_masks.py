"""Boolean masks of the brushes, strokes on masks, and masks for the cut edges of a model.

Sources: Raschka 2024, §3.5.1 (causal); Beltagy et al. 2020, "Longformer", §3.1
(window); Raffel et al. 2020, "T5", §3.2.1 and figure 3 (prefix).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.spec import BooleanMatrix
from visualizer.models.model_source import CutEdges
from visualizer.session.view_options import MaskPattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from visualizer.models.model_source import LayerAndHead, ModelSource

QueryKeyIndex = tuple[int, int]
"""Query and key indices of a cell."""


@lru_cache(maxsize=16)
def mask_of_brush(brush: MaskPattern, tokens: int, number: int) -> BooleanMatrix:
    """Return the mask of a brush for the given number of tokens.

    Parameters
    ----------
    number : int
        The width of a window, or the number of initial tokens that every query attends to.
    """
    if brush is MaskPattern.ALL:
        return BooleanMatrix.from_array(np.ones((tokens, tokens), dtype=bool))
    causal = np.tri(tokens, dtype=bool)  # query key
    if brush is MaskPattern.WINDOW:
        return BooleanMatrix.from_array(causal & ~np.tri(tokens, k=-number, dtype=bool))
    is_initial = np.broadcast_to(np.arange(tokens) < number, (tokens, tokens))
    if brush is MaskPattern.PADDING:
        return BooleanMatrix.from_array(is_initial)
    return BooleanMatrix.from_array(causal | is_initial if brush is MaskPattern.PREFIX else causal)


def apply_stroke(
    mask: BooleanMatrix,
    cells: Iterable[QueryKeyIndex],
    allow: bool,
    blocks: tuple[int, int] = (1, 1),
) -> BooleanMatrix:
    """Return a mask that allows or forbids the blocks that begin at the cells of a stroke."""
    painted = mask.to_array()  # query key
    for query, key in cells:
        painted[query : query + blocks[0], key : key + blocks[1]] = allow
    return BooleanMatrix.from_array(painted)


def is_allowed(mask: BooleanMatrix, cell: QueryKeyIndex, blocks: tuple[int, int] = (1, 1)) -> bool:
    """Return whether a cell is drawn as allowed: at least one cell of its block is allowed."""
    query, key = cell
    return bool(mask.to_array()[query : query + blocks[0], key : key + blocks[1]].any())


def cells_on_line(
    start: QueryKeyIndex, end: QueryKeyIndex, blocks: tuple[int, int] = (1, 1)
) -> list[QueryKeyIndex]:
    """Return the drawn cells on a line between two cells, both included, without gaps."""
    down, right = ((to - at) // block for at, to, block in zip(start, end, blocks, strict=True))
    steps = max(abs(down), abs(right))
    shares = [step / max(steps, 1) for step in range(steps + 1)]
    places = [(round(down * share), round(right * share)) for share in shares]
    return [(start[0] + row * blocks[0], start[1] + column * blocks[1]) for row, column in places]


def uncut_cells(allowed: np.ndarray, cut: tuple[QueryKeyIndex, ...]) -> np.ndarray:
    """Return the cells of a head that the model allows and that are not cut."""
    cells: np.ndarray = allowed.copy()  # query key
    within = [place for place in cut if max(place) < len(cells)]
    if within:
        cells[tuple(np.array(within).T)] = False
    return cells


def cut_other_cells(
    model: ModelSource, head: LayerAndHead, allowed: np.ndarray, cells: np.ndarray
) -> ModelSource:
    """Return a model in which all allowed cells of a head are cut, except those set in `cells`.

    Cut cells beyond the end of the text are kept.
    """
    beyond = [
        place for place in model.cut_cells_by_head.get(head, ()) if max(place) >= len(allowed)
    ]
    closed = ((query, key) for query, key in np.argwhere(allowed & ~cells).tolist())
    cut = sorted([*closed, *beyond])
    others = [each for each in model.cuts if each.layer_and_head != head]
    new = [CutEdges(*head, tuple(cut))] if cut else []
    return replace(model, cuts=tuple(sorted([*others, *new], key=lambda each: each.layer_and_head)))
