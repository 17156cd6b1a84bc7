"""Painting of the overview: all small heatmaps in one image, without smoothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QImage, QPainter, qRgb

from visualizer.heatmap.colour_mapping import (
    DROPPED,
    FORBIDDEN,
    MAX_COLOUR_INDEX,
    create_colour_image,
    create_indexed_image,
)
from visualizer.session.head_order import HeadOrder
from visualizer.widgets.theme import PRINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.features.layer_overview.presenter import LayerHeadIndex, LayerOverviewPanel
    from visualizer.widgets.theme import Theme

DEFAULT_SPACING_PX = 32
"""Spacing of small heatmaps, in pixels, above which the text is enlarged with the heatmaps."""
GAP_SHARE = 0.09
"""Gap between two small heatmaps, as a fraction of their spacing."""
GREYS = MAX_COLOUR_INDEX // 2
"""Number of greys in the palette of an overview, where they have odd indices."""


def paint_overview(panel: LayerOverviewPanel, title: str, side: int) -> QImage:
    """Return the overview with a title, the layer and head numbers, and a colour bar, for print.

    The image has a palette with every second colour of the map, and greys for the text. This makes
    a PNG file 35 to 45 % smaller than the red, green and blue of each pixel.

    Parameters
    ----------
    side : int
        The distance from one small heatmap to the next, in pixels.
    """
    heads = _merge_colour_pairs(_grid_indices(panel, side, panel.columns))
    grid_height, grid_width = heads.shape
    scale = max(1.0, side / DEFAULT_SPACING_PX)
    font = QFont(QGuiApplication.font())
    font.setPixelSize(round(11 * scale))
    metrics = QFontMetricsF(font)
    line = math.ceil(metrics.height())
    left = math.ceil(metrics.horizontalAdvance("0000"))
    top, below = 3 * line, 3 * line
    names = f"{title}\n{describe_colour_scale(panel)}".split("\n")
    width = left + grid_width + line
    width = max(width, math.ceil(max(map(metrics.horizontalAdvance, names))) + 2 * line)
    foot = top + grid_height
    text = QImage(width, foot + below, QImage.Format.Format_Grayscale8)
    text.fill(QColor(PRINT.paper))
    painter = QPainter(text)
    painter.setFont(font)
    painter.setPen(QColor(PRINT.ink))
    painter.drawText(QRectF(line / 2, line / 4, width, line), names[0])
    painter.setPen(QColor(PRINT.quiet))
    if panel.order is HeadOrder.LAYER:
        _paint_axis_numbers(painter, panel, (left, top), side, metrics)
    painter.drawText(QRectF(line / 2, foot + 1.4 * line, width, line), names[1])
    painter.end()
    shades = np.frombuffer(text.constBits(), np.uint8).reshape(text.height(), -1)[:, :width]
    indices = (1 + 2 * (np.arange(256) * (GREYS - 1) // 255)).astype(np.uint8)[shades]
    indices[top:foot, left : left + grid_width] = heads
    bar = np.linspace(0, MAX_COLOUR_INDEX, min(grid_width, round(120 * scale))).astype(np.uint8)
    bar_rows = slice(foot + round(0.6 * line), foot + round(1.1 * line))
    indices[bar_rows, left : left + len(bar)] = _merge_colour_pairs(bar)
    picture = create_indexed_image(indices, panel.map_name, PRINT)
    for index, shade in enumerate(np.linspace(0, 255, GREYS).round().astype(int).tolist()):
        picture.setColor(1 + 2 * index, qRgb(shade, shade, shade))
    return picture


def _merge_colour_pairs(indices: np.ndarray) -> np.ndarray:
    """Return indices without odd indices of the colour map."""
    return np.where(indices <= MAX_COLOUR_INDEX, indices & 0xFE, indices)


def uniform_cell_spacing(cells: int, side: int) -> int:
    """Return the heatmap spacing near the requested one at which all cells have the same size.

    Parameters
    ----------
    cells : int
        Number of cells per side of a heatmap.
    side : int
        The requested spacing, in pixels.
    """
    inner = cells * max(1, round(heatmap_side(side) / cells))
    spacing = inner
    while heatmap_side(spacing) < inner:
        spacing += 1
    return spacing


def heatmap_side(spacing: int) -> int:
    """Return the side length, in pixels, of a small heatmap for a given spacing."""
    return spacing - max(1, round(GAP_SHARE * spacing))


def paint_colour_scale(panel: LayerOverviewPanel, theme: Theme) -> QImage:
    """Return an image, one pixel high, of the colours from the smallest to the largest weight."""
    colours = np.arange(MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
    return create_colour_image(colours, panel.map_name, theme)


def describe_colour_scale(panel: LayerOverviewPanel) -> str:
    """Return a description of the limits of the colour scale, and of the pooling."""
    ends = sorted(panel.ranges, key=lambda one: (one.end, one.is_exceeded))
    lowest, highest = str(ends[0]), str(ends[-1])
    end = (
        highest if lowest == highest else f"between {lowest} and {highest}, depending on the layer"
    )
    pooled = f", max-pooled {panel.block} × {panel.block}" if panel.block > 1 else ""
    return f"Weights from 0 to {end}{pooled}"


def _paint_axis_numbers(
    painter: QPainter,
    panel: LayerOverviewPanel,
    corner: tuple[int, int],
    side: int,
    metrics: QFontMetricsF,
) -> None:
    left, top = corner
    line = metrics.height()
    every = max(1, math.ceil(line / side))
    flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    for row in range(0, len(panel.places) // panel.columns, every):
        place = QRectF(0, top + row * side, left - 5, (1 - GAP_SHARE) * side)
        painter.drawText(place, flags | Qt.TextFlag.TextDontClip, str(row + 1))
    every = max(1, math.ceil(metrics.horizontalAdvance(f"{max(panel.layers) + 1} ") / side))
    for column in range(0, panel.columns, every):
        place = QRectF(left + column * side, top - line, (1 - GAP_SHARE) * side, line)
        words = str(panel.layers[column] + 1)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip, words)


def paint_overview_grid(
    panel: LayerOverviewPanel, side: int, theme: Theme, columns: int = 0, below: int = 0
) -> QImage:
    """Return an image of all small heatmaps, in their order.

    Parameters
    ----------
    side : int
        The distance from one heatmap to the next, in pixels of the image.
    columns : int
        Number of heatmaps per row; 0 to use that of the panel.
    below : int
        Height of the space for a name below each heatmap, in pixels of the image.
    """
    indices = _grid_indices(panel, side, columns or panel.columns, below)
    return create_indexed_image(indices, panel.map_name, theme)


def _grid_indices(panel: LayerOverviewPanel, side: int, columns: int, below: int = 0) -> np.ndarray:
    """Return the colour map index of each pixel of `paint_overview_grid`."""
    assert panel.weights is not None
    inner = heatmap_side(side)
    cells = _resize_cells(_colour_indices(panel, panel.places), inner)  # place, row, column
    rows, high = -(-len(cells) // columns), side + below
    whole = np.full((rows * columns, high, side), DROPPED, np.uint8)
    whole[: len(cells), :inner, :inner] = cells
    grid = whole.reshape(rows, columns, high, side).swapaxes(1, 2)
    return grid.reshape(rows * high, columns * side)


def paint_head_heatmap(
    panel: LayerOverviewPanel, place: LayerHeadIndex, side: int, theme: Theme
) -> QImage:
    """Return the heatmap of one head, `side` pixels high and wide."""
    cells = _resize_cells(_colour_indices(panel, (place,)), side)
    return create_indexed_image(cells[0], panel.map_name, theme)


def _colour_indices(panel: LayerOverviewPanel, places: Sequence[LayerHeadIndex]) -> np.ndarray:
    """Return the colour map index of each pooled weight of the heads, [head, row, column]."""
    assert panel.weights is not None
    layers, heads = np.array(places).T
    weights = panel.weights[layers, heads]
    is_blank = np.isnan(weights)
    weights = np.where(is_blank, 0, weights)
    weights = weights / np.array([panel.ranges[layer].end for layer in layers])[:, None, None]
    colours: np.ndarray = (
        (weights * MAX_COLOUR_INDEX + 0.5).clip(0, MAX_COLOUR_INDEX).astype(np.uint8)
    )
    colours[is_blank] = FORBIDDEN
    return colours


def _resize_cells(cells: np.ndarray, side: int) -> np.ndarray:
    """Resize images to the given side length: repeat cells, or merge them by their maximum."""
    for axis in (1, 2):
        count = cells.shape[axis]
        starts = np.arange(side) * count // side
        if count <= side:
            cells = cells.take(starts, axis)
            continue
        # Blank cells have the largest index, so treat them as the smallest values here.
        shown = np.where(cells == FORBIDDEN, 0, cells + 1)
        largest = np.maximum.reduceat(shown, starts, axis)
        cells = np.where(largest == 0, FORBIDDEN, largest - 1).astype(np.uint8)
    return cells
