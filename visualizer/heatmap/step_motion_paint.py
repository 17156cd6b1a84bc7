"""Paints the cells that travel during a playback step from where they are read to where they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QEasingCurve, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap import value_to_colour_mapping
from visualizer.heatmap.step_highlight_paint import is_lit, visible_cells
from visualizer.heatmap.step_motion_paths import motion_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtGui import QImage

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.panel_and_board_types import Axis, Heatmap
    from visualizer.heatmap.step_cell_and_prediction_highlights import HighlightBlock, ShownStep
    from visualizer.heatmap.step_motion_paths import MotionPath
    from visualizer.widgets.theme import Theme

OPACITY = 0.7
OUTLINE = 3
"""Pixels that the outline reaches at most beyond the cells."""
EASING = QEasingCurve.Type.InOutCubic


class MovingCells(Struct, frozen=True, eq=False):
    """A picture of cells that are read, and where it begins and ends.

    Parameters
    ----------
    picture : QImage
        A pixel a cell, in the colours of its panel.
    """

    picture: QImage
    start: QRectF
    end: QRectF

    def at(self, progress: float) -> QRectF:
        """Return where it is, for an eased progress from 0 to 1."""
        start, end = self.start, self.end
        return QRectF(
            start.left() + (end.left() - start.left()) * progress,
            start.top() + (end.top() - start.top()) * progress,
            start.width() + (end.width() - start.width()) * progress,
            start.height() + (end.height() - start.height()) * progress,
        )


def eased(share: float) -> float:
    """Return the progress of a motion after a share of its time."""
    return QEasingCurve(EASING).valueForProgress(share)


def painted_area(area: QRectF) -> QRect:
    """Return the pixels that cells and their outline cover."""
    return area.adjusted(-OUTLINE, -OUTLINE, OUTLINE, OUTLINE).toAlignedRect()


def moving_cells(
    slots: Iterable[PanelSlot], step: ShownStep, theme: Theme, seen: QRectF | None = None
) -> tuple[MovingCells, ...]:
    """Return what moves between panels; cells of panels that are not there are left out.

    Parameters
    ----------
    seen : QRectF or None
        The visible part of the board; None for all of it.
    """
    slots = tuple(slot for slot in slots if seen is None or seen.intersects(slot.cells))
    shown = (each for each in step.readings if any(is_lit(slot, each.made) for slot in slots))
    axes = {one.heatmap.stage: (one.heatmap.rows.name, one.heatmap.columns.name) for one in slots}
    colours: dict[Heatmap, np.ndarray] = {}
    found = []
    for path in motion_paths(tuple(shown), axes):
        for source, target in _ends(slots, path):
            start, end = visible_cells(source, path.source), visible_cells(target, path.target)
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
                colours[heatmap] = value_to_colour_mapping.colour_indices(heatmap)
            cells = colours[heatmap][_drawn(heatmap.rows, path.source.rows)]
            cells = cells[:, _drawn(heatmap.columns, path.source.columns)]
            picture = value_to_colour_mapping.image(cells, heatmap.colour.map, theme)
            found.append(MovingCells(picture, start, end))
    return tuple(found)


def _ends(slots: tuple[PanelSlot, ...], path: MotionPath) -> list[tuple[PanelSlot, PanelSlot]]:
    """Return the panels of both ends of a path, those of one side of a comparison together."""
    return [
        (source, target)
        for source in slots
        if is_lit(source, path.source) and _is_whole(source.heatmap, path.source)
        for target in slots
        if is_lit(target, path.target) and target.heatmap.part is source.heatmap.part
    ]


def _is_whole(heatmap: Heatmap, block: HighlightBlock) -> bool:
    """Whether the drawn cells of a block stand for no number beside it, where they are pooled."""
    return all(
        span.start % axis.block == 0
        and (span.stop % axis.block == 0 or span.stop == len(axis.labels))
        for axis, span in ((heatmap.rows, block.rows), (heatmap.columns, block.columns))
    )


def _drawn(axis: Axis, span: range) -> slice:
    """Return the drawn cells of the visible part of some rows or columns."""
    first, last = max(span.start, axis.seen.start), min(span.stop, axis.seen.stop) - 1
    return slice(axis.cell(first), axis.cell(last) + 1)


def paint_moving_cells(
    painter: QPainter, cells: Iterable[MovingCells], progress: float, theme: Theme
) -> None:
    """Paint translucent, outlined pictures of cells where they are at a progress from 0 to 1."""
    painter.save()
    painter.setOpacity(OPACITY)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for one in cells:
        area = one.at(progress)
        painter.drawImage(area, one.picture)
        for ink, away in ((theme.paper, 1.5), (theme.accent, 0.5)):
            painter.setPen(QPen(QColor(ink), 1))
            painter.drawRect(area.adjusted(-away, -away, away, away))
    painter.restore()
