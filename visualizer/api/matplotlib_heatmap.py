"""Draws a heatmap into the axes of a matplotlib figure; matplotlib is an optional package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from visualizer.errors import InputError
from visualizer.export.figures.figure_page import PAPER_THEMES, create_pooled_figure_content
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table
from visualizer.optional_packages import require_package
from visualizer.session.view_options import ColourCurve

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.heatmap.board import Heatmap, HeatmapAxis
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.widgets.theme import Theme

MAX_CELLS_PER_SIDE = 2048
"""Maximum number of rows and columns; larger matrices are max-pooled."""
MAX_LABELS = 64
"""Maximum number of tokens along an axis that all have a label; otherwise, indices are shown."""


def plot_heatmap(snapshot: ExportSnapshot, figure_settings: FigureSettings, axes: Any) -> Any:
    """Draw the only heatmap of a figure into matplotlib axes; call within `offscreen_qt`.

    Returns
    -------
    matplotlib.image.AxesImage
        The image, in the colours of the figure.

    Raises
    ------
    InputError
        If matplotlib is not installed, or the figure does not have exactly one heatmap.
    """
    require_package("matplotlib", "plot")
    colouring = replace(snapshot.view.colouring, curve=ColourCurve.LINEAR)
    linear = replace(snapshot, view=replace(snapshot.view, colouring=colouring))
    content = create_pooled_figure_content(linear, figure_settings, lambda _: MAX_CELLS_PER_SIDE)
    heatmaps = content.board.heatmaps
    if len(heatmaps) != 1:
        sentence = (
            f"plot draws one heatmap, but the figure has {len(heatmaps):,}. Select one stage and "
            'one head, such as figure("weights", heads=0).'
        )
        raise InputError("stages", sentence)
    if axes is None:
        axes = import_module("matplotlib.pyplot").gca()
    return _draw(heatmaps[0], PAPER_THEMES[figure_settings.paper], axes)


def _draw(heatmap: Heatmap, theme: Theme, axes: Any) -> Any:
    colours = import_module("matplotlib.colors")
    words = colour_table(heatmap.colour.map, theme)
    channels = np.stack([words >> shift & 255 for shift in (16, 8, 0)], axis=-1) / 255
    map_ = colours.ListedColormap(
        channels[: MAX_COLOUR_INDEX + 1], heatmap.colour.map
    ).with_extremes(bad=theme.mask)
    values = np.ma.masked_array(heatmap.values)
    for mask in (heatmap.forbidden, heatmap.dropped, heatmap.hidden):
        if mask is not None:
            values[mask] = np.ma.masked
    (left, right), (top, bottom) = (_find_edges(axis) for axis in (heatmap.columns, heatmap.rows))
    are_tokens = heatmap.rows.is_token and heatmap.columns.is_token
    image = axes.imshow(
        values,
        cmap=map_.with_extremes(bad=theme.mask),
        vmin=heatmap.colour.low,
        vmax=heatmap.colour.high,
        extent=(left, right, bottom, top),
        aspect="equal" if are_tokens else "auto",
        interpolation="nearest",
    )
    for axis, shown in ((axes.xaxis, heatmap.columns), (axes.yaxis, heatmap.rows)):
        axis.set_label_text(shown.name)
        if shown.is_token and len(places := shown.visible_range) <= MAX_LABELS:
            axis.set_ticks(places, [shown.labels[place] for place in places])
        else:
            axis.get_major_locator().set_params(integer=True)
    if heatmap.columns.is_token:
        axes.tick_params("x", labelrotation=90)
    axes.set_title(" · ".join(filter(None, (heatmap.title, heatmap.label.lower()))))
    return image


def _find_edges(axis: HeatmapAxis) -> tuple[float, float]:
    """Return the edges of the first and the last row or column, which are at whole numbers."""
    return axis.visible_range.start - 0.5, axis.visible_range.stop - 0.5
