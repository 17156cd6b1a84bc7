"""Painting of the overview: all small heatmaps as one image, cell by cell without smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.heatmap.value_to_colour_mapping import FORBIDDEN, LARGEST, image

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from visualizer.features.layer_overview.presenter import LayerOverviewPanel
    from visualizer.widgets.theme import Theme

GAP = 0.09
"""The room between two small heatmaps, as a share of their distance."""


def overview_image(panel: LayerOverviewPanel, side: int, theme: Theme) -> QImage:
    """Return all small heatmaps in their order.

    Parameters
    ----------
    side : int
        The distance of one from the next, in pixels of the image.
    """
    assert panel.weights is not None
    inner = side - max(1, round(GAP * side))
    cells = _of_size(_colours(panel), inner)  # place, row, column
    rows = -(-len(cells) // panel.columns)
    whole = np.full((rows * panel.columns, side, side), FORBIDDEN, np.uint8)
    whole[: len(cells), :inner, :inner] = cells
    grid = whole.reshape(rows, panel.columns, side, side).swapaxes(1, 2)
    return image(grid.reshape(rows * side, panel.columns * side), panel.map_name, theme)


def _colours(panel: LayerOverviewPanel) -> np.ndarray:
    """Return the colour of each pooled weight, [place, row, column], in the order of the heads."""
    assert panel.weights is not None
    layers, heads = np.array(panel.places).T
    weights = panel.weights[layers, heads]
    is_blank = np.isnan(weights)
    weights = np.where(is_blank, 0, weights)
    if panel.is_by_row:
        weights = weights / np.maximum(weights.max(-1, keepdims=True), np.finfo(np.float32).tiny)
    colours: np.ndarray = (weights * LARGEST + 0.5).clip(0, LARGEST).astype(np.uint8)
    colours[is_blank] = FORBIDDEN
    return colours


def _of_size(cells: np.ndarray, side: int) -> np.ndarray:
    """Return images of so many pixels a side: cells repeated, or the largest of those together."""
    for axis in (1, 2):
        count = cells.shape[axis]
        if count <= side:
            cells = cells.take(np.arange(side) * count // side, axis)
            continue
        starts = np.arange(side) * count // side
        # Blank cells have the largest number of all, so they stand back until the end.
        shown = np.where(cells == FORBIDDEN, 0, cells + 1)
        largest = np.maximum.reduceat(shown, starts, axis)
        cells = np.where(largest == 0, FORBIDDEN, largest - 1).astype(np.uint8)
    return cells
