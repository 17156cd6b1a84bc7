"""Cached pixmaps of the areas around panels' cells: labels and ends of colour scales.

If only the values change, as during training, redrawing all labels would take most of the time.
Panels that differ only in their values share a pixmap.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QPainter, QPixmap

from visualizer.heatmap import flow_paint, panel_margins_paint, panel_paint
from visualizer.heatmap.board_layout import TitlePlacement
from visualizer.heatmap.flow_layout import HEADING_PX
from visualizer.session.view_options import ColourLimits
from visualizer.widgets.fonts import system_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable

    from PySide6.QtCore import QSize
    from PySide6.QtGui import QFont

    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.board_layout import BoardLayout, FlowPlacement, PanelSlot
    from visualizer.widgets.theme import Theme

    FrameKey = tuple[Hashable, Theme, float, QFont]
    SparePixmap = tuple[QPixmap, Hashable]
    """A pixmap and the key of its margins; the key is None if they depend on values."""


PLACEMENTS_ABOVE_PANEL = {TitlePlacement.OWN, TitlePlacement.LINE}
MAX_CACHED_PANELS, MAX_CACHED_TITLES = 48, 8
"""Maximum numbers of cached pixmaps for panels and for column titles.

The least recently used pixmaps are dropped.
"""


class PanelPixmap(Struct, frozen=True, eq=False):
    """A panel's pixmap.

    Parameters
    ----------
    margins : hashable
        Key of the area around its cells, which is independent of their values.
    """

    heatmap: Heatmap
    pixmap: QPixmap
    margins: Hashable

    @property
    def pixmap_without_panel(self) -> SparePixmap:
        """The pixmap without the panel; a reference to the panel would keep its values alive."""
        return self.pixmap, self.margins if self.heatmap.sums is None else None


class PanelMarginsPixmapCache:
    """Caches pixmaps of panels without their values, and pixmaps of column titles."""

    def __init__(self) -> None:
        self._frames: OrderedDict[Hashable, QPixmap] = OrderedDict()
        self._titles: OrderedDict[Hashable, QPixmap] = OrderedDict()

    def pixmap_with_margins(
        self, spare: list[SparePixmap], slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float
    ) -> PanelPixmap:
        """Return a pixmap with a panel's frame and head label, on which its values can be painted.

        Parameters
        ----------
        spare : list of SparePixmap
            Unused pixmaps. One of them may be reused, preferably one with the same margins.
            Painting on any of them takes a tenth of the time of a new one, because its memory is
            already allocated.
        whole : QRectF
            The area of the panel, aligned to whole pixels.
        ratio : float
            Device pixels per logical pixel.
        """
        heatmap = slot.heatmap
        frame = self._cached_frame(
            (_frame_key(slot, whole), theme, ratio, system_font()), slot, whole
        )
        head_label = (heatmap.label, heatmap.head, *slot.head_at) if slot.head_at else None
        notes = heatmap.notes if heatmap.layer is not None else slot.panel_notes
        margins = (frame.cacheKey(), head_label, notes, heatmap.is_marked)
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
        panel_margins_paint.paint_head_label(painter, slot, theme)
        panel_margins_paint.paint_notes(painter, slot, theme)
        painter.end()
        return PanelPixmap(heatmap, picture, margins)

    def titles_pixmap(
        self, layout: BoardLayout, width: float, theme: Theme, ratio: float
    ) -> QPixmap:
        """Return a pixmap of the stage names, with the given width and the headings' height."""
        heads = layout.column_headers
        shown = tuple(
            (_column_header_key(head.heatmap), head.left, head.width, head.notes) for head in heads
        )
        key = (shown, width, layout.head, theme, ratio, system_font())
        picture = self._titles.pop(key, None)
        if picture is None:
            picture = QPixmap((QSizeF(width, layout.head) * ratio).toSize())
            picture.setDevicePixelRatio(ratio)
            picture.fill(QColor(theme.paper))
            painter = QPainter(picture)
            panel_margins_paint.paint_column_headers(painter, heads, theme)
            painter.end()
        self._titles[key] = picture
        if len(self._titles) > MAX_CACHED_TITLES:
            self._titles.popitem(last=False)
        return picture

    def _cached_frame(self, key: FrameKey, slot: PanelSlot, whole: QRectF) -> QPixmap:
        kept = self._frames.pop(key, None)  # hashing the key takes longer than everything else here
        self._frames[key] = frame = (
            _paint_frame_pixmap(slot, whole, *key[1:3]) if kept is None else kept
        )
        if len(self._frames) > MAX_CACHED_PANELS:
            self._frames.popitem(last=False)
        return frame


class FlowPixmapCache:
    """Caches a pixmap of everything on the flow board except the cells of its columns.

    Painting all texts takes longer than painting the numbers, and usually only numbers change, so
    only the parts that have changed are painted again.
    """

    def __init__(self) -> None:
        self._pixmap = QPixmap()
        self._frame_key: Hashable = None
        self._layout_key: Hashable = None
        self._heading_keys: tuple[Hashable, ...] = ()
        self._legend_key: Hashable = None
        self._pictures: tuple[Heatmap, ...] = ()
        self.are_thumbnails_later = False
        """Whether earlier thumbnails may be returned for one frame if only numbers have changed."""

    def pixmap(self, flow: FlowPlacement, size: QSize, theme: Theme, ratio: float) -> QPixmap:
        """Return the pixmap for a viewport of the given size."""
        if (self._pixmap.size(), self._pixmap.devicePixelRatio()) != (size * ratio, ratio):
            self._pixmap = QPixmap(size * ratio)
            self._pixmap.setDevicePixelRatio(ratio)
            self._frame_key = None
        frame_key = (flow.frame_cache_key, theme, system_font())
        layout_key = (flow.layout, flow.panels.focus, theme, system_font())
        headings = flow.heading_cache_keys
        are_thumbnails_later = self.are_thumbnails_later and frame_key == self._frame_key
        thumbnails = () if are_thumbnails_later else flow.thumbnails
        pictures = [slot for slot in (*flow.operands, *thumbnails) if slot]
        painter = QPainter(self._pixmap)
        if frame_key != self._frame_key:
            has_headings = self._frame_key is not None and layout_key == self._layout_key
            # An edit or a drag only changes the labels, and headings take a quarter of the time.
            top = HEADING_PX * text_scale() * has_headings
            painter.fillRect(QRectF(0, top, size.width(), size.height()), QColor(theme.paper))
            flow_paint.paint_frame(painter, flow, theme)
            if not has_headings:
                self._heading_keys = (None,) * len(headings)
            self._legend_key, self._pictures = None, ()
        keys = enumerate(zip(headings, self._heading_keys, strict=True))
        changed = [at for at, (key, before) in keys if key != before]
        if changed:
            flow_paint.paint_headings(painter, flow, changed, theme)
        if flow.legend_cache_key != self._legend_key:
            flow_paint.paint_legend(painter, flow, theme)
        for slot in pictures:
            if slot.heatmap not in self._pictures:
                panel_paint.paint_values(painter, slot, theme)
        painter.end()
        self._frame_key, self._layout_key, self._heading_keys = frame_key, layout_key, headings
        self._legend_key = flow.legend_cache_key
        earlier = self._pictures if are_thumbnails_later else ()
        self._pictures = (*earlier, *(slot.heatmap for slot in pictures))
        return self._pixmap


def _frame_key(slot: PanelSlot, whole: QRectF) -> Hashable:
    """Return a key for everything that a frame shows.

    The heads of a stage share it unless they have their own labels.
    """
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
        (slot.title, _column_header_key(heatmap)) if slot.title in PLACEMENTS_ABOVE_PANEL else None,
    )


def _column_header_key(heatmap: Heatmap) -> Hashable:
    """Return a key for everything that is shown above a column of panels."""
    axes = (heatmap.rows.name, heatmap.columns.name)
    layer_and_head = None if heatmap.layer is None else (heatmap.layer, heatmap.head)
    return heatmap.title, axes, heatmap.colour, heatmap.unit, layer_and_head, heatmap.is_pooled


def _paint_frame_pixmap(slot: PanelSlot, whole: QRectF, theme: Theme, ratio: float) -> QPixmap:
    picture = QPixmap((whole.size() * ratio).toSize())
    picture.setDevicePixelRatio(ratio)
    picture.fill(QColor(theme.paper))
    painter = QPainter(picture)
    painter.translate(-whole.topLeft())
    panel_paint.paint_frame(painter, slot, theme)
    painter.end()
    return picture
