"""Cells as they are drawn: in blocks, and only those of the part that is seen."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import allowed_by

if TYPE_CHECKING:
    from visualizer.attention.masks import Masking


def drawn_cells(part: range | None, block: int) -> slice:
    """Say which of all drawn cells of such blocks are those of a part."""
    return slice(None) if part is None else slice(part.start // block, -(-part.stop // block))


@lru_cache(maxsize=8)
def forbidden_blocks(
    masking: Masking, tokens: int, text: int, rows: int, columns: int
) -> np.ndarray:
    """Say which drawn cells are forbidden: blocks of which every cell is; boolean."""
    allowed = allowed_by(masking, tokens)
    cells = allowed[text, 0] if allowed.ndim > 2 else allowed
    if (rows, columns) != (1, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, tokens, rows), axis=0)
        cells = np.maximum.reduceat(cells, np.arange(0, tokens, columns), axis=1)
    return ~cells
