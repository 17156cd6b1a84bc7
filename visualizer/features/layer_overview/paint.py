"""Painting of the overview: all small heatmaps in one image, without smoothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QImage, QPainter

from visualizer.heatmap.colour_mapping import (
    DROPPED,
    FORBIDDEN,
    MAX_COLOUR_INDEX,
    create_colour_image,
    create_indexed_image,
)
from visualizer.session.head_order import HeadOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.features.layer_overview.presenter import LayerHeadIndex, LayerOverviewPanel
    from visualizer.widgets.theme import Theme

DEFAULT_SPACING_PX = 32
"""Spacing of small heatmaps, in pixels, above which the text is enlarged with the heatmaps."""
GAP_SHARE = 0.09
"""Gap between two small heatmaps, as a fraction of their spacing."""


def paint_overview(panel: LayerOverviewPanel, title: str, side: int, theme: Theme) -> QImage:
    """Return the overview with a title, the layer and head numbers, and a colour bar.

    Parameters
    ----------
    side : int
        The distance from one small heatmap to the next, in pixels.
    """
    heads = paint_overview_grid(panel, side, theme)
    scale = max(1.0, side / DEFAULT_SPACING_PX)
    font = QFont(QGuiApplication.font())
    font.setPixelSize(round(11 * scale))
    metrics = QFontMetricsF(font)
    line = math.ceil(metrics.height())
    left = math.ceil(metrics.horizontalAdvance("0000"))
    top, below = 3 * line, 3 * line
    names = f"{title}\n{describe_colour_scale(panel)}".split("\n")
    width = left + heads.width() + line
    width = max(width, math.ceil(max(map(metrics.horizontalAdvance, names))) + 2 * line)
    picture = QImage(width, top + heads.height() + below, QImage.Format.Format_RGB32)
    picture.fill(QColor(theme.paper))
    painter = QPainter(picture)
    painter.setFont(font)
    painter.setPen(QColor(theme.ink))
    painter.drawText(QRectF(line / 2, line / 4, width, line), names[0])
    painter.drawImage(left, top, heads)
    painter.setPen(QColor(theme.quiet))
    if panel.order is HeadOrder.LAYER:
        _paint_axis_numbers(painter, panel, (left, top), side, metrics)
    foot = top + heads.height()
    bar = QRectF(left, foot + 0.6 * line, min(heads.width(), 120 * scale), 0.5 * line)
    painter.drawImage(bar, paint_colour_scale(panel, theme))
    painter.drawText(QRectF(line / 2, foot + 1.4 * line, width, line), names[1])
    painter.end()
    return picture


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
    columns = columns or panel.columns
    assert panel.weights is not None
    inner = heatmap_side(side)
    cells = _resize_cells(_colour_indices(panel, panel.places), inner)  # place, row, column
    rows, high = -(-len(cells) // columns), side + below
    whole = np.full((rows * columns, high, side), DROPPED, np.uint8)
    whole[: len(cells), :inner, :inner] = cells
    grid = whole.reshape(rows, columns, high, side).swapaxes(1, 2)
    return create_indexed_image(grid.reshape(rows * high, columns * side), panel.map_name, theme)


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
