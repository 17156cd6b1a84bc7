"""What stands around the cells of panels as pictures that are kept: labels, and the colour bar.

While numbers change and nothing else, as they do while a model learns, writing all labels anew
would take most of the time. Panels that differ in their numbers alone share a picture.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPixmap

from visualizer.heatmap import panel_margins_paint, panel_paint
from visualizer.widgets.fonts import system_font

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.widgets.theme import Theme

    FrameKey = tuple[Hashable, Theme, float, str]


MOST = 48
"""So many are kept: those that were used last."""
MOST_HEADS = 192
"""So many names of heads are kept: small parts of panels."""


class PanelMarginsPixmapCache:
    """Pictures of panels without their numbers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, QPixmap] = OrderedDict()
        self._heads: OrderedDict[Hashable, tuple[QPointF, QPixmap]] = OrderedDict()

    def paint_on(
        self,
        picture: QPixmap | None,
        slot: PanelSlot,
        whole: QRectF,
        theme: Theme,
        ratio: float,
    ) -> QPixmap:
        """Paint a panel's frame and whose panel it is; give the picture, to paint its numbers on.

        Parameters
        ----------
        picture : QPixmap or None
            One that is no longer needed, of any size. To paint on it takes a tenth of the time
            that a new one takes, as its memory is there.
        whole : QRectF
            The place of the panel, from a whole pixel on.
        ratio : float
            Device pixels a pixel.
        """
        key = (_key(slot, whole), theme, ratio, system_font())
        frame = self._frame(key, slot, whole)
        if picture is None or (picture.size(), picture.devicePixelRatio()) != (frame.size(), ratio):
            picture = QPixmap(frame.size())
            picture.setDevicePixelRatio(ratio)
        painter = QPainter(picture)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
        painter.drawPixmap(QPointF(), frame)
        if panel_margins_paint.has_head(slot):
            painter.drawPixmap(*self._head(frame, slot, whole, theme, ratio))
        painter.end()
        return picture

    def _frame(self, key: FrameKey, slot: PanelSlot, whole: QRectF) -> QPixmap:
        kept = self._kept.pop(key, None)  # to hash the key takes longer than all else here
        self._kept[key] = frame = _painted(slot, whole, *key[1:3]) if kept is None else kept
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return frame

    def _head(
        self, frame: QPixmap, slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float
    ) -> tuple[QPointF, QPixmap]:
        """Give the part of a frame in which it is written whose panel it is, and its place."""
        box = panel_margins_paint.head_box(slot).translated(-whole.topLeft())
        place = (box.left(), box.top(), box.width(), box.height())
        key_of_head = (frame.cacheKey(), slot.heatmap.label, slot.heatmap.head, place)
        if key_of_head not in self._heads:
            pixels = QRectF(box.topLeft() * ratio, box.size() * ratio).toAlignedRect()
            pixels = pixels.adjusted(-1, -1, 1, 1).intersected(frame.rect())
            part, corner = frame.copy(pixels), QPointF(pixels.topLeft()) / ratio
            painter = QPainter(part)
            painter.translate(-whole.topLeft() - corner)
            panel_margins_paint.paint_head(painter, slot, theme)
            painter.end()
            self._heads[key_of_head] = corner, part
            if len(self._heads) > MOST_HEADS:
                self._heads.popitem(last=False)
        self._heads.move_to_end(key_of_head)
        return self._heads[key_of_head]


def _key(slot: PanelSlot, whole: QRectF) -> Hashable:
    """Name all that a frame shows: the heads of a stage share one, but for labels of their own."""
    heatmap, place = slot.heatmap, slot.cells.translated(-whole.topLeft())
    return (
        (whole.width(), whole.height()),
        (place.left(), place.top(), place.width(), place.height()),
        (slot.cell_width, slot.cell_height, slot.gutter),
        heatmap.rows if slot.has_row_labels else None,
        heatmap.layer is None,
        (heatmap.columns, heatmap.colour, heatmap.unit) if slot.has_column_labels else None,
    )


def _painted(slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float) -> QPixmap:
    picture = QPixmap((whole.size() * ratio).toSize())
    picture.setDevicePixelRatio(ratio)
    picture.fill(QColor(theme.paper))
    painter = QPainter(picture)
    painter.translate(-whole.topLeft())
    panel_paint.paint_frame(painter, slot, theme)
    painter.end()
    return picture
