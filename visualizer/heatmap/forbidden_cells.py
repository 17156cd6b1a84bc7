"""Which drawn cells of a panel hold forbidden pairs only."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, any_allowed_in_blocks

if TYPE_CHECKING:
    from visualizer.session.resolved_view import PoolingExtent


def any_of_blocks(cells: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Say of each block of so many rows and columns whether it holds any of the cells."""
    if (rows, columns) != (1, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[0], rows), axis=0)
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[1], columns), axis=1)
    return cells


@lru_cache(maxsize=8)
def forbidden_in(
    masking: Masking, sides: tuple[int, int], text: int, extent: PoolingExtent
) -> np.ndarray:
    """Say which drawn cells hold only forbidden ones: one array for all panels, drawn once.

    Parameters
    ----------
    sides : tuple of int
        Numbers of queries and keys.
    """
    return np.ascontiguousarray(
        ~any_allowed_in_blocks(masking, sides, text, extent.blocks, extent.cells)
    )
