"""What stands around the cells of panels as pictures that are kept: labels, and the colour bar.

While numbers change and nothing else, as they do while a model learns, writing all labels anew
would take most of the time. Panels that differ in their numbers alone share a picture.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QPainter, QPixmap

from visualizer.ui import heatmap as draw
from visualizer.ui.theme import system_font

if TYPE_CHECKING:
    from collections.abc import Hashable

    from PySide6.QtCore import QRectF

    from visualizer.ui.slots import Slot
    from visualizer.ui.theme import Theme

MOST = 48
"""So many are kept: those that were used last."""


class Frames:
    """Pictures of panels without their numbers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, QPixmap] = OrderedDict()

    def picture(self, slot: Slot, whole: QRectF, theme: Theme, ratio: float) -> QPixmap:
        """Give a picture of a panel's frame to paint its numbers on.

        Parameters
        ----------
        whole : QRectF
            The place of the panel, from a whole pixel on.
        ratio : float
            Device pixels a pixel.
        """
        key = (_key(slot, whole), theme, ratio, system_font())
        if key not in self._kept:
            self._kept[key] = _painted(slot, whole, theme, ratio)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return QPixmap(self._kept[key])


def _key(slot: Slot, whole: QRectF) -> Hashable:
    """Name all that a frame shows; only those with row labels say whose they are."""
    heatmap, place = slot.heatmap, slot.cells.translated(-whole.topLeft())
    whose = (heatmap.rows, heatmap.label, heatmap.head, heatmap.layer is None)
    return (
        (whole.width(), whole.height()),
        (place.left(), place.top(), place.width(), place.height()),
        (slot.cell_width, slot.cell_height, slot.gutter),
        whose if slot.has_row_labels else None,
        (heatmap.columns, heatmap.colour, heatmap.unit) if slot.has_column_labels else None,
    )


def _painted(slot: Slot, whole: QRectF, theme: Theme, ratio: float) -> QPixmap:
    picture = QPixmap((whole.size() * ratio).toSize())
    picture.setDevicePixelRatio(ratio)
    picture.fill(QColor(theme.paper))
    painter = QPainter(picture)
    painter.translate(-whole.topLeft())
    draw.paint_frame(painter, slot, theme)
    painter.end()
    return picture
