"""Image of all cells of one panel, with one pixel per cell, rendered a few rows at a time.

If a side has more than `MAX_SIDE_PX` cells, each pixel is a block of cells. The text can be of any
length, because only a few rows of the image are in memory at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.spec import NormalisationKind
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent, resolve_figure_view
from visualizer.export.figures.figure_page import PAPER_THEMES
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board_presenter import draw_exact_panel, partial_progress
from visualizer.heatmap.panel_presenter import PanelSource
from visualizer.progress import Progress, ignore_progress
from visualizer.session.timeline import PlaybackState
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtGui import QImage

    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.attention.stages import Stage
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.heatmap.board import Heatmap
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.resolved_view import PoolingExtent, ResolvedView
    from visualizer.widgets.theme import Theme

MAX_SIDE_PX = 16_384
"""Maximum width and height of the image, in pixels."""
ROWS_PER_BAND = 256
"""Number of pixel rows that are drawn together."""
COARSE_SIDE_CELLS = 512
"""Cells per side of the coarse image from which the colour limits of a long text are taken."""


class CellImageSource(Struct, frozen=True, eq=False):
    """A panel to render with one pixel per cell.

    Parameters
    ----------
    head_choice : tuple
        The head and the aggregate that the panel shows.
    extent : PoolingExtent
        The extent of the whole panel, with the numbers of rows and columns per pixel.
    """

    resolved: ResolvedView
    stage: Stage
    head_choice: tuple[int | None, HeadAggregate | None]
    extent: PoolingExtent
    theme: Theme

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        rows, columns = self.extent.side
        return columns, rows

    @property
    def size_text(self) -> str:
        """The size and the number of cells per pixel, as part of a message."""
        width, height = self.size
        down, right = self.extent.blocks
        cell = "one cell" if (down, right) == (1, 1) else f"{down:,} × {right:,} cells"
        return f"{width:,} × {height:,} pixels; each pixel shows {cell}"

    def render_bands(self, progress: Progress) -> Iterator[np.ndarray]:
        """Yield the pixels a few rows at a time, uint8 [row, byte]; see `save_png_bands`.

        Raises
        ------
        InputError
            If the colours rank all cells of a panel and the panel has more rows than fit in a band.
        """
        self._check_rank_colours()
        height = self.extent.side[0]
        if self._needs_value_range:
            draw_exact_panel(
                self._coarse_source(COARSE_SIDE_CELLS), partial_progress(progress, 0, 2)
            )
            progress = partial_progress(progress, 1, 2)
        for top in range(0, height, ROWS_PER_BAND):
            yield self._render_band(
                top, partial_progress(progress, top // ROWS_PER_BAND, -(-height // ROWS_PER_BAND))
            )

    def render_coarse(self, room: int) -> QImage:
        """Return a quick preview with at most ``room`` cells per side."""
        source = self._coarse_source(room)
        source.draw_coarse_rows()
        heatmap = source.build_heatmap({})
        indices = colour_mapping.colour_indices(heatmap)
        return colour_mapping.create_colour_image(indices, heatmap.colour.map, self.theme)

    def _coarse_source(self, room: int) -> PanelSource:
        return self.panel_source(self.resolved.full_extent(self.stage, room))

    def panel_source(self, extent: PoolingExtent) -> PanelSource:
        """Return the source of the given part of the panel."""
        return PanelSource(self.resolved, self.stage, *self.head_choice, extent=extent)

    @property
    def _needs_value_range(self) -> bool:
        """Whether colours depend on the range of all values of a long text."""
        view, trace = self.resolved.view, self.resolved.run.trace
        if not trace.is_blockwise:
            return False
        if self.stage.is_weights and trace.spec.normalisation is NormalisationKind.SUM:
            return True  # weights may be negative
        is_share = self.stage.is_weights and view.lens is not WeightTransform.TIMES_VALUE
        is_to_one = view.colouring.limits is ColourLimits.UNIT and is_share
        return view.colouring.limits not in {ColourLimits.AUTO, ColourLimits.ROW} and not is_to_one

    def _check_rank_colours(self) -> None:
        colouring, rows = self.resolved.view.colouring, self.extent.side[0]
        is_ranked = colouring.curve is ColourCurve.RANK
        if is_ranked and colouring.limits is not ColourLimits.ROW and rows > ROWS_PER_BAND:
            sentence = (
                "Rank colours compare all cells of a panel, but this image is drawn "
                "a few rows at a time. Rank per row, or choose another colour scale."
            )
            raise InputError("export", sentence)

    def _render_band(self, top: int, progress: Progress) -> np.ndarray:
        block, count = self.extent.blocks[0], self.resolved.run.trace.shape(self.stage.name)[-2]
        rows = range(top * block, min((top + ROWS_PER_BAND) * block, count))
        source = self.panel_source(replace(self.extent, rows=rows))
        if source.tensor.is_blockwise:
            draw_exact_panel(source, progress)
        else:
            progress(0, 1)
        pixels = self._colour_pixels(source.build_heatmap({}))
        source.discard_values()
        return pixels

    def _colour_pixels(self, heatmap: Heatmap) -> np.ndarray:
        table = colour_mapping.colour_table(heatmap.colour.map, self.theme)
        colours = np.stack([table >> shift & 255 for shift in (16, 8, 0)], axis=-1)
        indices = colour_mapping.colour_indices(heatmap)
        pixels: np.ndarray = colours.astype(np.uint8)[indices]
        return pixels.reshape(len(indices), -1)


def create_cell_image_source(
    snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> CellImageSource:
    """Return the panel to render: that of the pinned cell or, without one, of the last weights.

    The entire panel is rendered, regardless of the zoom. A window that shows the same run is not
    affected.
    """
    view = replace(snapshot.view, zoom=None, comparison=None, playhead=PlaybackState(), guess=None)
    snapshot = replace(snapshot.with_separate_tiles(), view=view)
    panel = replace(figure_settings, extent=FigureExtent.PANEL)
    resolved = resolve_figure_view(snapshot, panel)
    stage = resolved.shown_stages[0]
    head_choice = next(resolved.rows_of(stage))
    extent = resolved.full_extent(stage, MAX_SIDE_PX)
    return CellImageSource(
        resolved, stage, head_choice, extent, PAPER_THEMES[figure_settings.paper]
    )


def render_cell_image(cells: CellImageSource) -> np.ndarray:
    """Return the pixels of a panel, uint8 [row, column, 4]: red, green, blue and alpha."""
    width, height = cells.size
    pixels = np.full((height, width, 4), 255, np.uint8)
    top = 0
    for band in cells.render_bands(ignore_progress):
        pixels[top : top + len(band), :, :3] = band.reshape(len(band), width, 3)
        top += len(band)
    return pixels
