"""Paints the inputs of a playback step while they move to the cells computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap import colour_mapping
from visualizer.heatmap.highlight_paint import is_block_shown, visible_block_area
from visualizer.heatmap.step_motion_paths import motion_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtGui import QImage

    from visualizer.heatmap.board import Heatmap, HeatmapAxis
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.highlights import HighlightBlock, HighlightedStep
    from visualizer.heatmap.step_motion_paths import MotionPath
    from visualizer.widgets.theme import Theme

OUTLINE_WIDTH_PX = 3
"""Maximum extent of the outline beyond the cells, in pixels."""


class MovingCells(Struct, frozen=True, eq=False):
    """An image of input cells, with its start and end rectangles.

    Parameters
    ----------
    picture : QImage
        A copy of the board, or one pixel per cell in the colours of its panel.
    is_copy : bool
        Whether the image is a copy of the board, with its numbers.
    """

    picture: QImage
    start: QRectF
    end: QRectF
    is_copy: bool = False

    def paint(self, painter: QPainter, area: QRectF) -> None:
        """Paint the image in an area; a scaled copy is smoothed, so that no sign disappears."""
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.is_copy)
        painter.drawImage(area, self.picture)

    def area_at(self, progress: float) -> QRectF:
        """Return the interpolated rectangle for an eased progress value from 0 to 1."""
        start, end = self.start, self.end
        return QRectF(
            start.left() + (end.left() - start.left()) * progress,
            start.top() + (end.top() - start.top()) * progress,
            start.width() + (end.width() - start.width()) * progress,
            start.height() + (end.height() - start.height()) * progress,
        )


def painted_area(area: QRectF) -> QRect:
    """Return the pixels covered by cells and their outline."""
    return area.adjusted(
        -OUTLINE_WIDTH_PX, -OUTLINE_WIDTH_PX, OUTLINE_WIDTH_PX, OUTLINE_WIDTH_PX
    ).toAlignedRect()


def create_moving_cells(
    slots: Iterable[PanelSlot], step: HighlightedStep, theme: Theme, seen: QRectF | None = None
) -> tuple[MovingCells, ...]:
    """Return the cells that move between panels, except cells of panels that are not shown.

    Parameters
    ----------
    seen : QRectF or None
        The visible part of the board; None for the whole board.
    """
    slots = tuple(slot for slot in slots if seen is None or seen.intersects(slot.cells))
    shown = (
        each
        for each in step.computations
        if any(is_block_shown(slot, each.result) for slot in slots)
    )
    axes = {one.heatmap.stage: (one.heatmap.rows.name, one.heatmap.columns.name) for one in slots}
    colours: dict[Heatmap, np.ndarray] = {}
    found = []
    for path in motion_paths(tuple(shown), axes):
        for source, target in _path_slots(slots, path):
            start, end = (
                visible_block_area(source, path.source),
                visible_block_area(target, path.target),
            )
            is_seen = seen is None or (
                start is not None
                and end is not None
                and seen.intersects(start)
                and seen.intersects(end)
            )
            if start is None or end is None or not is_seen:
                continue
            heatmap = source.heatmap
            if heatmap not in colours:
                colours[heatmap] = colour_mapping.colour_indices(heatmap)
            cells = colours[heatmap][_drawn_cell_slice(heatmap.rows, path.source.rows)]
            cells = cells[:, _drawn_cell_slice(heatmap.columns, path.source.columns)]
            picture = colour_mapping.create_colour_image(cells, heatmap.colour.map, theme)
            found.append(MovingCells(picture, start, end))
    return tuple(found)


def target_areas(
    slots: Iterable[PanelSlot], step: HighlightedStep, seen: QRectF | None = None
) -> tuple[QRectF, ...]:
    """Return the areas of the cells that a step computes, in the panels that show them.

    Parameters
    ----------
    seen : QRectF or None
        The visible part of the board; None for the whole board.
    """
    found = (
        visible_block_area(slot, each.result)
        for slot in slots
        for each in step.computations
        if is_block_shown(slot, each.result)
    )
    return tuple(
        area for area in found if area is not None and (seen is None or seen.intersects(area))
    )


def paint_empty_targets(painter: QPainter, areas: Iterable[QRectF], theme: Theme) -> None:
    """Paint cells that are not computed yet as empty, with a dashed outline."""
    painter.save()
    painter.setBrush(QColor(theme.paper))
    painter.setPen(QPen(QColor(theme.accent), 1.5, Qt.PenStyle.DashLine))
    for area in areas:
        painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))
    painter.restore()


def _path_slots(
    slots: tuple[PanelSlot, ...], path: MotionPath
) -> list[tuple[PanelSlot, PanelSlot]]:
    """Return the source and target panels of a path, both on the same side of a comparison."""
    return [
        (source, target)
        for source in slots
        if is_block_shown(source, path.source)
        and _covers_whole_pooled_cells(source.heatmap, path.source)
        for target in slots
        if is_block_shown(target, path.target) and target.heatmap.part is source.heatmap.part
    ]


def _covers_whole_pooled_cells(heatmap: Heatmap, block: HighlightBlock) -> bool:
    """Return whether the pooled cells of a block do not represent any numbers outside the block."""
    return all(
        span.start % axis.block == 0
        and (span.stop % axis.block == 0 or span.stop == len(axis.labels))
        for axis, span in ((heatmap.rows, block.rows), (heatmap.columns, block.columns))
    )


def _drawn_cell_slice(axis: HeatmapAxis, span: range) -> slice:
    """Return the drawn cells in the visible part of a range of rows or columns."""
    first, last = (
        max(span.start, axis.visible_range.start),
        min(span.stop, axis.visible_range.stop) - 1,
    )
    return slice(axis.cell_index_of(first), axis.cell_index_of(last) + 1)
