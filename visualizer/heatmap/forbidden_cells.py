"""Find the drawn cells of a panel that contain only forbidden pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, any_allowed_in_blocks

if TYPE_CHECKING:
    from visualizer.session.resolved_view import PoolingExtent


def any_of_blocks(cells: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return, for each block of `rows` × `columns` cells, whether any of its cells is True."""
    if (rows, columns) != (1, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[0], rows), axis=0)
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[1], columns), axis=1)
    return cells


@lru_cache(maxsize=8)
def forbidden_in(
    masking: Masking, sides: tuple[int, int], text: int, extent: PoolingExtent
) -> np.ndarray:
    """Return the drawn cells with only forbidden pairs; all panels share one cached array.

    Parameters
    ----------
    sides : tuple of int
        Numbers of queries and keys.
    """
    return np.ascontiguousarray(
        ~any_allowed_in_blocks(masking, sides, text, extent.blocks, extent.cells)
    )
