"""What stands around the cells of panels as pictures that are kept: labels, and own ends.

While numbers change and nothing else, as they do while a model learns, writing all labels anew
would take most of the time. Panels that differ in their numbers alone share a picture.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QPainter, QPixmap

from visualizer.heatmap import panel_margins_paint, panel_paint
from visualizer.heatmap.board_layout import TitlePlace
from visualizer.session.colour_options import ColourLimits
from visualizer.widgets.fonts import system_font

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.heatmap.board_layout import BoardLayout, PanelSlot
    from visualizer.heatmap.panel_and_board_types import Heatmap
    from visualizer.widgets.theme import Theme

    FrameKey = tuple[Hashable, Theme, float, str]
    SparePixmap = tuple[QPixmap, Hashable]
    """A picture, and what it shows around its cells; None where that depends on numbers."""


OVER_PANEL = {TitlePlace.OWN, TitlePlace.SHEET, TitlePlace.LINE}
MAX_CACHED_PANELS, MAX_CACHED_TITLES = 48, 8
"""So many pictures of panels, and of names over columns, are kept: those that were used last."""


class PanelPixmap(Struct, frozen=True, eq=False):
    """A panel's picture.

    Parameters
    ----------
    margins : hashable
        What stands around its cells, whatever numbers are in them.
    """

    heatmap: Heatmap
    pixmap: QPixmap
    margins: Hashable

    @property
    def spare(self) -> SparePixmap:
        """The picture without the panel, whose numbers it would keep alive."""
        return self.pixmap, self.margins if self.heatmap.sums is None else None


class PanelMarginsPixmapCache:
    """Pictures of panels without their numbers."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, QPixmap] = OrderedDict()
        self._titles: OrderedDict[Hashable, QPixmap] = OrderedDict()

    def paint_on(
        self, spare: list[SparePixmap], slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float
    ) -> PanelPixmap:
        """Give a picture of a panel's frame and whose panel it is, to paint its numbers on.

        Parameters
        ----------
        spare : list of SparePixmap
            Pictures that are no longer needed, of which one may be taken: best one that shows the
            same around its cells. To paint on any takes a tenth of the time that a new one takes,
            as its memory is there.
        whole : QRectF
            The place of the panel, from a whole pixel on.
        ratio : float
            Device pixels a pixel.
        """
        heatmap = slot.heatmap
        frame = self._frame((_key(slot, whole), theme, ratio, system_font()), slot, whole)
        whose = (heatmap.label, heatmap.head, *slot.head_at) if slot.head_at else None
        notes = heatmap.notes if heatmap.layer is not None else slot.own_notes
        margins = (frame.cacheKey(), whose, notes, heatmap.is_marked)
        same = next((at for at, (_, kept) in enumerate(spare) if kept == margins), None)
        if same is not None:
            return PanelPixmap(heatmap, spare.pop(same)[0], margins)
        picture = spare.pop()[0] if spare else QPixmap()
        if (picture.size(), picture.devicePixelRatio()) != (frame.size(), ratio):
            picture = QPixmap(frame.size())
            picture.setDevicePixelRatio(ratio)
        painter = QPainter(picture)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
        painter.drawPixmap(QPointF(), frame)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
        painter.translate(-whole.topLeft())
        panel_margins_paint.paint_head(painter, slot, theme)
        panel_margins_paint.paint_notes(painter, slot, theme)
        painter.end()
        return PanelPixmap(heatmap, picture, margins)

    def titles(self, layout: BoardLayout, width: float, theme: Theme, ratio: float) -> QPixmap:
        """Give a picture of the stages' names, as wide as this and as high as the head."""
        heads = layout.column_heads
        shown = tuple(
            (_key_of_head(head.heatmap), head.left, head.width, head.notes) for head in heads
        )
        key = (shown, width, layout.head, theme, ratio, system_font())
        picture = self._titles.pop(key, None)
        if picture is None:
            picture = QPixmap((QSizeF(width, layout.head) * ratio).toSize())
            picture.setDevicePixelRatio(ratio)
            picture.fill(QColor(theme.paper))
            painter = QPainter(picture)
            panel_margins_paint.paint_column_heads(painter, heads, theme)
            painter.end()
        self._titles[key] = picture
        if len(self._titles) > MAX_CACHED_TITLES:
            self._titles.popitem(last=False)
        return picture

    def _frame(self, key: FrameKey, slot: PanelSlot, whole: QRectF) -> QPixmap:
        kept = self._kept.pop(key, None)  # to hash the key takes longer than all else here
        self._kept[key] = frame = _painted(slot, whole, *key[1:3]) if kept is None else kept
        if len(self._kept) > MAX_CACHED_PANELS:
            self._kept.popitem(last=False)
        return frame


def _key(slot: PanelSlot, whole: QRectF) -> Hashable:
    """Name all that a frame shows: the heads of a stage share one, but for labels of their own."""
    heatmap, place = slot.heatmap, slot.cells.translated(-whole.topLeft())
    return (
        (whole.width(), whole.height()),
        (place.left(), place.top(), place.width(), place.height()),
        (slot.cell_width, slot.cell_height, slot.gutter),
        heatmap.rows if slot.has_row_labels else None,
        heatmap.layer is None,
        heatmap.columns if slot.has_column_labels else None,
        slot.longest,
        heatmap.colour if heatmap.colour.limits is ColourLimits.PANEL else None,
        (slot.title, _key_of_head(heatmap)) if slot.title in OVER_PANEL else None,
    )


def _key_of_head(heatmap: Heatmap) -> Hashable:
    """Name all that is read over a column of panels."""
    axes = (heatmap.rows.name, heatmap.columns.name)
    whose = None if heatmap.layer is None else (heatmap.layer, heatmap.head)
    return heatmap.title, axes, heatmap.colour, heatmap.unit, whose, heatmap.is_pooled


def _painted(slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float) -> QPixmap:
    picture = QPixmap((whole.size() * ratio).toSize())
    picture.setDevicePixelRatio(ratio)
    picture.fill(QColor(theme.paper))
    painter = QPainter(picture)
    painter.translate(-whole.topLeft())
    panel_paint.paint_frame(painter, slot, theme)
    painter.end()
    return picture
