"""Widget that shows the heatmaps; it manages layout, cached pixmaps and user input."""

from __future__ import annotations

import math
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSignalBlocker,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QHelpEvent,
    QImage,
    QNativeGestureEvent,
    QPainter,
    QPixmap,
    QRegion,
)
from PySide6.QtWidgets import QApplication, QWidget

from visualizer.heatmap import flow_paint, panel_paint
from visualizer.heatmap.board import Board, stage_and_side
from visualizer.heatmap.board_layout import (
    BoardLayout,
    ContextMenuTarget,
    FlowClickTarget,
    FlowPlacement,
    LayerWeightCell,
    PanelSlot,
)
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.heatmap.cell_cursor_paint import is_cell_visible, paint_cursor
from visualizer.heatmap.cell_lookup import belongs_to_panel, cell_at
from visualizer.heatmap.cell_scroll_widget import CellScrollArea
from visualizer.heatmap.flow_cursor_paint import (
    framed_areas,
    paint_flow_cursor,
    paint_layer_weight_cell,
    paint_step_labels,
    paint_token_outlines,
    panel_cursor,
    panel_highlights,
)
from visualizer.heatmap.flow_descriptions import (
    describe_token_attention,
    token_at,
    tooltip_at,
)
from visualizer.heatmap.flow_headings_paint import layer_name_column_at, state_label_at
from visualizer.heatmap.flow_labels_paint import flow_context_menu_target, label_context_menu_target
from visualizer.heatmap.flow_motion_paint import create_flow_motion
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.heatmap.flow_timeline_paint import FlowTimeline, paint_flow_timeline
from visualizer.heatmap.highlight_paint import paint_highlights, paint_mask_changes
from visualizer.heatmap.highlights import Highlights, highlights_before_step
from visualizer.heatmap.minimap_widget import MinimapWidget
from visualizer.heatmap.number_magnifier_widget import NumberMagnifier
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.heatmap.pixmap_caches import (
    MAX_CACHED_PANELS,
    FlowPixmapCache,
    PanelMarginsPixmapCache,
)
from visualizer.heatmap.step_motion_controller import StepMotionController
from visualizer.session.token_selection import TokenRole
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.input_filters import (
    ROTATION_PER_NOTCH,
    WheelNotchCounter,
    has_command_modifier,
)
from visualizer.widgets.labels import show_tooltip
from visualizer.widgets.painted_message import paint_message

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent, QWheelEvent

    from visualizer.heatmap.board import DrawnStage, MaskChangedCells
    from visualizer.heatmap.flow_motion_paint import FlowMotion
    from visualizer.heatmap.pixmap_caches import PanelPixmap, SparePixmap
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme


PANEL_MARGIN_PX = 500
"""Maximum distance in pixels between a panel's cells and its labels and titles."""


class BoardCanvas(CellScrollArea):
    """Shows all panels of a board, with highlights, cursor and minimap."""

    roomChanged = Signal(int)
    """Emitted with the number of cells that fit along the side of a panel."""
    arranged = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Heatmaps")
        self.setAccessibleDescription("Arrow keys move from cell to cell; Esc unpins the cell.")
        self.board = Board()
        self.cell_cursor = CellCursor()
        self.highlights = Highlights()
        self._fresh: Mapping[DrawnStage, MaskChangedCells] = {}
        self._message = ""
        self._marked_place: LayerWeightCell | ContextMenuTarget | None = None
        """The layer weight or the token label under the pointer."""
        self._is_stale = self._is_to_arrange = False
        self.board_layout = BoardLayout((), 0, 0, 0)
        self._seen = QSize()
        self._stages: list[Hashable] = []
        """Keys of the layout's columns."""
        # The whole viewport is painted, so Qt need not paint the background first.
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.minimap = MinimapWidget(self.viewport())
        self.magnifier = NumberMagnifier(self.viewport())
        self.arranged.connect(self.magnifier.hide)
        self._pictures: dict[int, PanelPixmap] = {}
        self._flow_pixmaps = FlowPixmapCache()
        self._spare: list[SparePixmap] = []
        """Pixmaps of removed panels, reused for new ones until the next frame."""
        self._frames = PanelMarginsPixmapCache()
        self.motion = StepMotionController(self._visible_scene, self._create_motion, self)
        self.motion.repaintRequested.connect(self._schedule_area_paint)
        self.motion.resultShown.connect(self._repaint_result_copies)
        self.arranged.connect(self.motion.end)
        self.painted.connect(self.motion.begin, Qt.ConnectionType.QueuedConnection)

    # ------------------------------------------------------------------ contents

    def show_board(
        self, board: Board, cursor: CellCursor, highlights: Highlights, theme: Theme, message: str
    ) -> None:
        """Show panels, cursor and highlights, or a message if the board has no panels."""
        is_newly_pinned = cursor.pinned is not None and cursor.pinned != self.cell_cursor.pinned
        self.cell_cursor, before = cursor, self.cell_cursor
        self.highlights, highlights_before = highlights, self.highlights
        if board is not self.board or theme is not self._theme or message != self._message:
            if theme is not self._theme:
                self._pictures.clear()
            self.board, self._theme, self._message = board, theme, message
            self._arrange_panels()
        self.minimap.show_board(board, highlights, theme)
        self.motion.show_highlights(highlights)
        if highlights is not highlights_before:
            self.magnifier.hide()  # a prediction or playback may hide the numbers
        if cursor != before or highlights is not highlights_before:
            self._schedule_paint()
        if is_newly_pinned:
            self._scroll_to_hidden_cell(cursor.pinned)
        elif highlights is not highlights_before:
            self._scroll_to_hidden_cell(highlights.leading)

    def show_mask_changes(self, fresh: Mapping[DrawnStage, MaskChangedCells]) -> None:
        """Mark the cells that need new values because their mask has changed."""
        if fresh or self._fresh:
            self._fresh = fresh
            self._schedule_paint()

    def repaint_immediately(self) -> None:
        """Repaint changes immediately, because the user is looking at them.

        The thumbnails of the flow board are updated in the next frame.
        """
        if self._is_stale and self.isVisible():
            self._flow_pixmaps.are_thumbnails_later = True
            self.viewport().repaint()
            self._flow_pixmaps.are_thumbnails_later = False
            for slot in self.board_layout.flow.thumbnails if self.board_layout.flow else ():
                self._schedule_area_paint(QRegion(slot.cells.toAlignedRect()))

    def _schedule_paint(self) -> None:
        self._is_stale = True
        self.viewport().update()

    def _visible_scene(self) -> tuple[tuple[PanelSlot, ...], QRectF, Theme]:
        slots = (slot for slot in self.board_layout.slots if self.board.is_current(slot.heatmap))
        seen = QRectF(self.viewport().rect()).translated(self.scroll_offset())
        return tuple(slots), seen, self._theme

    def _create_motion(self) -> FlowMotion | None:
        _, seen, theme = self._visible_scene()
        flow = self.board_layout.flow
        return (
            create_flow_motion(flow, self.highlights, theme, seen, self._render_flow_area)
            if flow
            else None
        )

    def _render_flow_area(self, area: QRectF, *, is_earlier: bool = False) -> QImage:
        """Return an image of an area of the flow board, without highlights.

        Parameters
        ----------
        is_earlier : bool
            Whether to show the state of the matrix from which playback computes the visible one.
        """
        flow, ratio = self.board_layout.flow, self.devicePixelRatioF()
        assert flow is not None
        size = (area.size() * ratio).toSize().expandedTo(QSize(1, 1))  # rows may be lower than that
        image = QImage(size, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        image.fill(QColor(self._theme.paper))
        painter = QPainter(image)
        painter.translate(-area.topLeft())
        size = self.viewport().size()
        painter.drawPixmap(0, 0, self._flow_pixmaps.pixmap(flow, size, self._theme, ratio))
        for slot in self.board_layout.slots:
            whole = self._align_to_device_pixels(slot.whole_area)
            if whole.intersects(area):
                shown = flow.earlier if is_earlier and flow.has_earlier_state(slot) else None
                painter.drawPixmap(whole.topLeft(), self._panel_pixmap(shown or slot, whole))
        painter.end()
        return image

    def _repaint_result_copies(self) -> None:
        """Repaint the thumbnails and the operands, which also show the result of a step."""
        flow = self.board_layout.flow
        for slot in (*flow.thumbnails, *flow.operands) if flow else ():
            if slot:
                self._schedule_area_paint(QRegion(slot.cells.toAlignedRect()))

    def _schedule_area_paint(self, area: QRegion) -> None:
        self.viewport().update(area.translated(-self.scroll_offset().toPoint()))

    def scroll_to_cell(self, cell: Cell) -> None:
        """Scroll to a cell."""
        slot = self._find_slot(cell)
        if slot:
            above = round(self.board_layout.head) + 24  # column titles overlay the cells
            area = slot.cell_area(*cell.place[-2:]).toAlignedRect().adjusted(-24, -above, 24, 24)
            with QSignalBlocker(self):  # do not hover the cell that scrolls under the pointer
                self._scroll_to(area)

    def _scroll_to_hidden_cell(self, cell: Cell | None) -> None:
        """Scroll to a cell if it is not fully visible."""
        area = self.area_of_cell(cell) if cell else None
        seen = self.viewport().rect().adjusted(0, round(self.board_layout.head), 0, 0)
        if cell and area and not seen.contains(area):
            self.scroll_to_cell(cell)

    def area_of_cell(self, cell: Cell) -> QRect | None:
        """Return the rectangle of a cell in the viewport, or None if no panel shows it."""
        slot = self._find_slot(cell)
        if slot is None:
            return None
        return slot.cell_area(*cell.place[-2:]).translated(-self.scroll_offset()).toAlignedRect()

    def _arrange_panels(self) -> None:
        self._is_to_arrange = False
        ratio = self.devicePixelRatioF()
        width, height = self._canvas_size()
        board, layout = self.board, self._compute_layout(width, height, ratio)
        seen, self._seen = self._seen, self.viewport().size()  # smaller if there are scroll bars
        is_moved = self._seen != seen or not layout.has_same_positions(self.board_layout)
        if layout.room:
            self.roomChanged.emit(layout.room)
        if self.board is not board:
            return  # the signal has already replaced the board by one with this number of cells
        self._stages = [column[0].column_key for column in self.board.columns]
        old = {id(slot.heatmap): slot for slot in self.board_layout.slots}
        self.board_layout, self._marked_place = layout, None
        unmoved = {
            id(slot.heatmap)
            for slot in self.board_layout.slots
            if (before := old.get(id(slot.heatmap)))
            and self._appearance_key(before) == self._appearance_key(slot)
        }
        pictures, self._pictures = self._pictures, {}
        for key, kept in pictures.items():
            if key in unmoved:
                self._pictures[key] = kept
            else:
                self._spare.append(kept.pixmap_without_panel)
        del self._spare[:-MAX_CACHED_PANELS]
        if is_moved:
            self._update_scroll_ranges()
            self._place_minimap()
        self._schedule_paint()
        self.arranged.emit()

    def _compute_layout(self, width: float, height: float, ratio: float) -> BoardLayout:
        if self.board.flow:
            return place_flow_panels(self.board, width, height, ratio)
        present = None
        if self.board_layout.placed_panels and self._stages == [
            one[0].column_key for one in self.board.columns
        ]:
            present = self.board_layout.placed_panels.arrangement
        return lay_out_board(self.board, width, height, ratio, present=present, is_paged=True)

    def _place_minimap(self) -> None:
        self.minimap.resize(self.minimap.sizeHint())
        corner = self.viewport().rect().bottomRight() - QPoint(12, 12)
        self.minimap.move(corner - self.minimap.rect().bottomRight())

    def _canvas_size(self) -> tuple[int, int]:
        # The scroll bar is always excluded; otherwise, showing or hiding it would move everything.
        size = self.maximumViewportSize()
        return size.width() - self.verticalScrollBar().sizeHint().width(), size.height()

    def _update_scroll_ranges(self) -> None:
        """Set the ranges of the scroll bars.

        The viewport's size is not used, because the room that one bar takes up may be the only
        reason for the other; Qt would then show both.
        """
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        wide, high = round(self.board_layout.width), round(self.board_layout.height)
        size = whole = self.maximumViewportSize()
        for _ in range(2):  # a bar that is needed may make the other one necessary
            width = whole.width() - down.sizeHint().width() * (high > size.height())
            height = whole.height() - across.sizeHint().height() * (wide > size.width())
            size = QSize(width, height)
        page = self._page_height
        for bar, length, part in ((across, wide, width), (down, high, round(page or height))):
            bar.setRange(0, max(0, length - part))
            bar.setPageStep(part)
            bar.setSingleStep(40)
        if page:
            down.setSingleStep(round(page))

    def _find_slot(self, cell: Cell) -> PanelSlot | None:
        current = [slot for slot in self.board_layout.slots if self.board.is_current(slot.heatmap)]
        slots = [slot for slot in current if is_cell_visible(slot.heatmap, cell)]
        own = [slot for slot in slots if belongs_to_panel(slot.heatmap, cell)]
        return next(iter((*own, *slots)), None)

    def _scroll_to(self, area: QRect) -> None:
        for bar, low, high, part in (
            (self.horizontalScrollBar(), area.left(), area.right(), self.viewport().width()),
            (self.verticalScrollBar(), area.top(), area.bottom(), self.viewport().height()),
        ):
            bar.setValue(min(max(bar.value(), high - part), low))
        if self._page_height:
            self.verticalScrollBar().setValue(
                round(area.center().y() // self._page_height * self._page_height)
            )

    @property
    def _page_height(self) -> float | None:
        """Height of a page of heads, or None for a board without pages."""
        return self.board_layout.placed_panels.page if self.board_layout.placed_panels else None

    def turn_page(self, pages: int) -> None:
        """Move by a number of pages of heads."""
        if self._page_height:
            bar = self.verticalScrollBar()
            bar.setValue(
                round((round(bar.value() / self._page_height) + pages) * self._page_height)
            )

    def scroll_offset(self) -> QPointF:
        down: float = self.verticalScrollBar().value()
        if self._page_height:  # only whole pages are shown
            down = round(down / self._page_height) * self._page_height
        return QPointF(self.horizontalScrollBar().value(), down)

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        self._is_stale = False
        painter = QPainter(self.viewport())
        offset = self.scroll_offset()
        seen = QRectF(event.rect()).translated(offset)
        far = PANEL_MARGIN_PX
        near = seen.adjusted(-far, -far, far, far)  # excludes other pages
        slots = [slot for slot in self.board_layout.slots if slot.cells.intersects(near)]
        margin = 0 if self.board_layout.flow else 4
        wholes = [
            self._align_to_device_pixels(slot.whole_area.adjusted(-margin, -margin, margin, margin))
            for slot in slots
        ]
        flow = self.board_layout.flow
        highlights = panel_highlights(flow, self.highlights)
        cursor = panel_cursor(flow, self.cell_cursor)
        if flow:
            size, ratio = self.viewport().size(), self.devicePixelRatioF()
            painter.drawPixmap(0, 0, self._flow_pixmaps.pixmap(flow, size, self._theme, ratio))
            is_hidden = self.motion.is_result_hidden
            computed = highlights_before_step(self.highlights) if is_hidden else self.highlights
            flow_paint.blank_uncomputed_panels(painter, flow, computed, self._theme)
            paint_flow_timeline(painter, flow, self.highlights, self._theme)
        else:
            self._fill_background_between(
                painter, event.rect(), [whole.translated(-offset) for whole in wholes]
            )
        if not self.board_layout.slots:
            self._paint_message(painter)
        painter.translate(-offset)
        for slot, whole in zip(slots, wholes, strict=True):
            if whole.intersects(seen):
                painter.drawPixmap(whole.topLeft(), self._panel_pixmap(slot, whole))
                fresh = self._fresh.get((*stage_and_side(slot.heatmap), slot.heatmap.leading))
                if fresh:
                    paint_mask_changes(painter, slot, fresh, self._theme)
                if self.board.is_current(slot.heatmap):
                    marks = self._paint_earlier_state(painter, slot, whole, highlights)
                    paint_highlights(painter, slot, marks, self._theme)
                    paint_cursor(painter, slot, cursor, self._theme)
        if flow:
            self._paint_flow_marks(painter, flow)
        self.motion.paint(painter)
        self._spare.clear()
        painter.translate(0, offset.y())
        if event.rect().top() <= self.board_layout.head:
            self._paint_titles(painter)
        self._paint_focus_frame(painter)
        painter.end()
        self.painted.emit()

    def _paint_earlier_state(
        self, painter: QPainter, slot: PanelSlot, whole: QRectF, highlights: Highlights
    ) -> Highlights:
        """Paint an earlier state of a matrix; return the highlights that remain to be painted."""
        flow = self.board_layout.flow
        if flow is None or flow.earlier is None or not flow.has_earlier_state(slot):
            return highlights
        picture = self._panel_pixmap(flow.earlier, whole)
        paint = partial(painter.drawPixmap, whole.topLeft(), picture)
        return flow_paint.paint_earlier_state(painter, slot, highlights, paint)

    def _paint_flow_marks(self, painter: QPainter, flow: FlowPlacement) -> None:
        """Paint the labels of a playback step, or the chain of the current cell."""
        if self.highlights.step:
            paint_step_labels(painter, flow, self.highlights.leading, self._theme)
        elif isinstance(self._marked_place, LayerWeightCell):
            paint_layer_weight_cell(painter, flow, self._marked_place, self._theme)
        elif layer_cell := self._pinned_layer_weight_cell(flow):
            paint_layer_weight_cell(painter, flow, layer_cell, self._theme)
        elif self._marked_place and self._marked_place.token is not None:
            is_row = self._marked_place.role is TokenRole.QUERY
            token = self._marked_place.token
            paint_token_outlines(painter, flow, token, is_row=is_row, theme=self._theme)
        else:
            cell = self.cell_cursor.hovered or self.cell_cursor.pinned
            hidden = self.highlights.hidden_stages
            paint_flow_cursor(painter, flow, cell, hidden, self._theme)

    def _pinned_layer_weight_cell(self, flow: FlowPlacement) -> LayerWeightCell | None:
        """Return the pinned layer weight, or None while a cell or a token is under the pointer."""
        pinned = self.cell_cursor.pinned_parameter
        is_elsewhere = self.cell_cursor.hovered or self._marked_place
        return flow.layer_weight_cell_of(pinned) if pinned and not is_elsewhere else None

    def _fill_background_between(
        self, painter: QPainter, area: QRect, pictures: list[QRectF]
    ) -> None:
        """Fill the area between the pixmaps, which is smaller than the whole viewport."""
        rest, paper = QRegion(area), QColor(self._theme.paper)
        for picture in pictures:
            left, top = math.ceil(picture.left()), math.ceil(picture.top())
            # Pixmaps are rounded to whole device pixels, so less than one pixel may be missing.
            right, bottom = math.floor(picture.right()) - 1, math.floor(picture.bottom()) - 1
            rest -= QRect(left, top, right - left, bottom - top)
        painter.setClipRegion(rest)
        painter.fillRect(area, paper)
        painter.setClipping(False)

    def _paint_message(self, painter: QPainter) -> None:
        painter.setPen(QColor(self._theme.quiet))
        paint_message(painter, self.viewport().rect(), self._message)

    def _paint_titles(self, painter: QPainter) -> None:
        if self.board_layout.column_headers:
            width = max(self.board_layout.width, self.viewport().width())
            ratio = self.devicePixelRatioF()
            painter.drawPixmap(
                0, 0, self._frames.titles_pixmap(self.board_layout, width, self._theme, ratio)
            )

    def _align_to_device_pixels(self, area: QRectF) -> QRectF:
        """Align an area with device pixels; otherwise, the edges of cells would straddle pixels."""
        ratio = self.devicePixelRatioF()
        left, top = (math.floor(edge * ratio) / ratio for edge in (area.left(), area.top()))
        return QRectF(left, top, area.right() - left, area.bottom() - top)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._pictures.clear()
            self._arrange_panels()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        # While the window is rearranged, only the final size counts.
        self._is_to_arrange = not self.updatesEnabled()
        if not self._is_to_arrange:
            self._arrange_panels()

    def apply_pending_arrangement(self) -> None:
        """Arrange the panels if the size has changed while updates were disabled."""
        if self._is_to_arrange:
            self._arrange_panels()

    def _panel_pixmap(self, slot: PanelSlot, whole: QRectF) -> QPixmap:
        key = id(slot.heatmap)
        if key not in self._pictures:
            picture = self._frames.pixmap_with_margins(
                self._spare, slot, whole, self._theme, self.devicePixelRatioF()
            )
            painter = QPainter(picture.pixmap)
            painter.translate(-whole.topLeft())
            panel_paint.paint_values(painter, slot, self._theme)
            painter.end()
            self._pictures[key] = picture
        return self._pictures[key].pixmap

    def _appearance_key(self, slot: PanelSlot) -> tuple[object, ...]:
        """Return everything that determines a slot's image, except its panel and position.

        The subpixel offset of its cells is included, because letters are smoothed accordingly.
        """
        offset = slot.cells.topLeft() - self._align_to_device_pixels(slot.whole_area).topLeft()
        return (offset, slot.cell_width, slot.cell_height, slot.top, slot.gutter, slot.numbers,
                slot.panel_notes, slot.longest, slot.head_at, slot.is_head_short, slot.title,
                slot.has_row_labels, slot.has_column_labels)  # fmt: skip


ENTER_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
ALL_HEADS = -1
HEAD_KEYS = {Qt.Key.Key_0: ALL_HEADS, **{Qt.Key(Qt.Key.Key_1 + head): head for head in range(9)}}
"""Keys of the flow board, each with the head that it brings to the front."""
TARGET_CURSORS = (Qt.CursorShape.ArrowCursor, Qt.CursorShape.PointingHandCursor)
"""Mouse cursors next to and over headings and tabs of the flow board."""
WHEEL_ZOOM_FACTOR = 1.25
"""Zoom factor per notch of the wheel."""
PAGE_MESSAGE_MS = 5_000
MIN_PINCH_FACTOR = 0.1
"""Minimum zoom factor of one pinch event, for example if the fingers meet."""


class BoardView(BoardCanvas):
    """Board canvas that handles mouse, wheel and keyboard input."""

    leadingHovered = Signal(tuple)
    """Emitted with the leading index of the hovered panel if it differs from the current one."""
    zoomed = Signal(float, str, float, float)
    """Emitted with the zoom factor, the stage, and the fractional row and column to zoom at."""
    enlarged = Signal(object)
    """Emitted with a cell of the panel to enlarge, after a double-click or on Enter."""
    pageChanged = Signal(str, int)
    """Emitted with a description of the current page of heads, and its display time in ms."""
    dragged = Signal(str, int, int)
    """Emitted with a stage, and the numbers of rows and columns by which it was panned."""
    headChosen = Signal(int)
    """Emitted with the head to bring to the front of the flow board."""
    allHeadsRequested = Signal()
    menuRequested = Signal(object, QPoint)
    """Emitted with the place for which to open a context menu, and the position on the screen."""
    stageFocused = Signal(str)
    """Emitted with the stage to show as large as possible on the flow board."""
    tokenChosen = Signal(int, TokenRole)
    """Emitted with a token and its role when the label of the token is clicked."""
    layerChosen = Signal(str)
    """Emitted with a layer when its name is clicked."""
    parameterHovered = Signal(object)
    """Emitted with the layer weight under the pointer, or None when the pointer leaves it."""
    parameterClicked = Signal(object)
    described = Signal()
    """Emitted when `description` changes."""
    scrubbed = Signal(str, float)
    """Emitted while a heading is dragged, with a stage and the fraction of the stage to seek to."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self._grip: tuple[PanelSlot, QPointF, QPointF] | None = None
        self._is_dragging = False
        self._scrub: tuple[FlowClickTarget, QPointF] | None = None
        """The heading that was pressed, and the position at which it was pressed."""
        self._wheel = WheelNotchCounter()
        self._pending_notches, self._zoom_point = 0, QPointF()
        self.zoom_timer = QTimer(self, singleShot=True, interval=0)
        """Active while events are pending, because wheel events may arrive faster than frames."""
        self.zoom_timer.timeout.connect(self._emit_zoom)
        self.verticalScrollBar().valueChanged.connect(self._emit_page_changed)
        self.arranged.connect(self._later.start)  # a different cell may be under the pointer
        self.verticalScrollBar().valueChanged.connect(self.magnifier.hide)

    # ------------------------------------------------------------------ the mouse

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._scrub and event.buttons():
            self._scrub_to(event.position())
        elif self._grip and event.buttons():
            self._drag_board(event.position())
        else:
            super().mouseMoveEvent(event)

    def _hover_at(self, point: QPointF) -> None:
        cell = self.cell_at(point)
        self.magnifier.hide_if_outside(point)
        self._emit_hovered_leading(self.slot_at(point))
        # While the mask is edited, the cursor shows the brush.
        if self.board_layout.flow and self.viewport().cursor().shape() in TARGET_CURSORS:
            self.viewport().setCursor(TARGET_CURSORS[self._is_clickable_at(point)])
        self._mark_place_at(point if cell is None else None)
        if cell != self._pointed:
            self._pointed = cell
            self.cellHovered.emit(cell)

    def clear_hovered_cell(self) -> None:
        self.magnifier.hide()
        self._mark_place_at(None)
        super().clear_hovered_cell()

    def _is_clickable_at(self, point: QPointF) -> bool:
        """Return whether a click on the flow board would choose something other than a cell."""
        flow = self.board_layout.flow
        is_target = self._flow_click_target_at(point) is not None
        return is_target or (
            flow is not None
            and (layer_name_column_at(flow, point) is not None or token_at(flow, point) is not None)
        )

    def _mark_place_at(self, point: QPointF | None) -> None:
        """Mark the weight of a layer or the label of a token at a point of the flow board."""
        flow = self.board_layout.flow
        place = None
        if flow and point is not None:
            place = flow.layer_weight_cell_at(point) or token_at(flow, point)
        if place != self._marked_place:
            self._marked_place = place
            self._schedule_paint()
            weight = (
                flow.parameter_of(place) if flow and isinstance(place, LayerWeightCell) else None
            )
            self.parameterHovered.emit(weight)
            self.described.emit()

    @property
    def hover_description(self) -> str:
        """Description of the token under the pointer (HTML), if there is one."""
        flow, place = self.board_layout.flow, self._marked_place
        if flow is None or place is None or isinstance(place, LayerWeightCell):
            return ""
        return escape(describe_token_attention(flow, place, self._hidden_stages))

    @property
    def _hidden_stages(self) -> frozenset[str]:
        """The stages that a prediction hides, or that playback may not have computed."""
        extents = (extent.stage for extent in self.highlights.computed_extents)
        return self.highlights.hidden_stages.union(extents)

    def _emit_hovered_leading(self, slot: PanelSlot | None) -> None:
        if slot and not self.board.is_current(slot.heatmap):
            self.leadingHovered.emit(slot.heatmap.leading)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        target = self._flow_click_target_at(event.position())
        self._is_dragging = False
        if target and target.column is not None:  # dragging seeks, and clicking enlarges
            self._scrub = target, event.position()
            return
        if target:
            self._activate_click_target(target, event.position())
            return
        if self._select_token_or_layer_at(event.position()):
            return
        flow = self.board_layout.flow
        weight = flow.layer_weight_cell_at(event.position()) if flow else None
        if flow and weight:
            self.parameterClicked.emit(flow.parameter_of(weight))
            return
        slot = self.slot_at(event.position())
        self._emit_hovered_leading(slot)
        if slot and slot.heatmap.is_zoomed:  # dragging pans, and clicking pins
            self._grip = (slot, event.position(), event.position())
        else:
            self.cellClicked.emit(self.cell_at(event.position()))

    def _flow_click_target_at(self, point: QPointF) -> FlowClickTarget | None:
        flow = self.board_layout.flow
        return flow.click_target_at(point) if flow else None

    def _select_token_or_layer_at(self, point: QPointF) -> bool:
        """Choose the token or the layer named at a point; return whether there is one."""
        flow = self.board_layout.flow
        token = token_at(flow, point) if flow else None
        named = layer_name_column_at(flow, point) if flow else None
        if token and token.token is not None:
            self.tokenChosen.emit(token.token, token.role)
        elif flow and named is not None:
            self.layerChosen.emit(flow.panels.columns[named].layer)
        return token is not None or named is not None

    def _activate_click_target(self, target: FlowClickTarget, point: QPointF) -> None:
        """Bring a head to the front, show all heads, or enlarge a matrix or show its next state.

        On the name or the dot of a state, show that state.
        """
        flow = self.board_layout.flow
        assert flow is not None
        state = state_label_at(flow, point)
        if target.column is not None and state and not state.is_shown:
            self.stageFocused.emit(state.stage)
        elif target.column is not None:
            states = flow.panels.columns[target.column].states
            shown = states.index(flow.panels.panels[target.column].stage)
            is_next = target.column == flow.panels.focus
            self.stageFocused.emit(states[(shown + is_next) % len(states)])
        else:
            self._activate_tab(flow, ALL_HEADS if target.head is None else target.head)

    def _activate_tab(self, flow: FlowPlacement, head: int) -> None:
        if head == ALL_HEADS and flow.panels.thumbnails:
            self.allHeadsRequested.emit()
        elif 0 <= head < flow.panels.heads:
            self.headChosen.emit(head)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if cell and event.button() == Qt.MouseButton.LeftButton:
            self.enlarged.emit(cell)
        else:  # the second of two quick clicks on a heading, a tab or a label
            self.mousePressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            cell = self.cell_cursor.pinned or self.cell_cursor.hovered
            area = self.area_of_cell(cell) if cell else None
            place = ContextMenuTarget(cell if area else None)
            at = (area or self.viewport().rect()).center()
        else:
            place = self.context_menu_target_at(QPointF(event.pos())) or ContextMenuTarget()
            at = event.pos()
        self.menuRequested.emit(place, self.viewport().mapToGlobal(at))

    def context_menu_target_at(self, point: QPointF) -> ContextMenuTarget | None:
        """Return the place, under a point of the viewport, that a context menu refers to."""
        cell = self.cell_at(point)
        if cell:
            return ContextMenuTarget(cell)
        flow = self.board_layout.flow
        if flow:
            return flow_context_menu_target(flow, point)
        if point.y() < self.board_layout.head:
            across = point.x() + self.scroll_offset().x()
            heads = self.board_layout.column_headers
            stages = (head.heatmap.stage for head in heads if 0 <= across - head.left < head.width)
            stage = next(stages, None)
            return ContextMenuTarget(stage=stage) if stage else None
        at = point + self.scroll_offset()
        slots = (slot for slot in self.board_layout.slots if slot.whole_area.contains(at))
        slot = next(slots, None)
        return label_context_menu_target(slot, at) if slot else None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        cell = self.cell_cursor.pinned or self.cell_cursor.hovered
        if cell and event.key() in ENTER_KEYS and not has_command_modifier(event):
            self.enlarged.emit(cell)
        elif not self.handle_head_key(event):
            super().keyPressEvent(event)

    def handle_head_key(self, event: QKeyEvent) -> bool:
        """Bring a head of the flow board to the front; return whether the key stands for one."""
        flow, tab = self.board_layout.flow, HEAD_KEYS.get(Qt.Key(event.key()))
        if flow is None or tab is None or has_command_modifier(event):
            return False
        self._activate_tab(flow, tab)
        return True

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._grip and not self._is_dragging:
            self.cellClicked.emit(self.cell_at(event.position()))
        elif self._scrub and not self._is_dragging:
            self._activate_click_target(*self._scrub)
        self._grip, self._scrub, self._is_dragging = None, None, False
        self.viewport().unsetCursor()

    def _scrub_to(self, point: QPointF) -> None:
        """Seek to the step at a point in the headings if the pointer was dragged far enough."""
        flow = self.board_layout.flow
        if flow is None or self._scrub is None:
            return
        moved = abs(point.x() - self._scrub[1].x())
        if self._is_dragging or moved >= QApplication.startDragDistance():
            self._is_dragging = True
            self.scrubbed.emit(*FlowTimeline(flow).stage_and_share_at(point.x()))
            self.motion.skip_motion()

    def _drag_board(self, point: QPointF) -> None:
        if self._grip is None:
            return
        slot, pressed, last = self._grip
        if not self._is_dragging:
            far = (point - pressed).manhattanLength() >= QApplication.startDragDistance()
            if not far:
                return
            self._is_dragging = True
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        distance = last - point
        down = int(distance.y() / slot.cell_height)
        right = int(distance.x() / slot.cell_width)
        if down or right:
            self._grip = (
                slot,
                pressed,
                last - QPointF(right * slot.cell_width, down * slot.cell_height),
            )
            rows, columns = slot.heatmap.rows.block, slot.heatmap.columns.block
            self.dragged.emit(slot.heatmap.stage, down * rows, right * columns)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._queue_zoom(event.position(), event.angleDelta().y())
        elif self._page_height and event.angleDelta().y():
            self.turn_page(-self._wheel.completed_notches(event.angleDelta().y()))
        else:
            super().wheelEvent(event)

    def _emit_page_changed(self) -> None:
        if not self._page_height:
            return
        seen = QRectF(0, self.scroll_offset().y(), self.board_layout.width, self._page_height)
        labels = [slot.heatmap.label for slot in self.board_layout.slots
                  if slot.heatmap.label and seen.contains(slot.cells.center())]  # fmt: skip
        named = " to ".join(dict.fromkeys((labels[0], labels[-1]))) if labels else ""
        pages = round(self.board_layout.height / self._page_height)
        self.pageChanged.emit(
            f"Page {round(seen.top() / self._page_height) + 1} of {pages}: {named}", PAGE_MESSAGE_MS
        )

    def _queue_zoom(self, point: QPointF, turned: float) -> None:
        """Zoom by whole notches, and add up events that arrive before the next frame."""
        self._pending_notches += self._wheel.completed_notches(turned)
        self._zoom_point = point
        if not self.zoom_timer.isActive():
            self._emit_zoom()

    def _emit_zoom(self) -> None:
        notches, self._pending_notches = self._pending_notches, 0
        slot = self.slot_at(self._zoom_point)
        if slot and notches:
            self.zoom_timer.start()
            within = self._zoom_point + self.scroll_offset()
            self.zoomed.emit(
                WHEEL_ZOOM_FACTOR**notches, slot.heatmap.stage, *slot.fractional_cell_at(within)
            )

    def viewportEvent(self, event: QEvent) -> bool:
        pinched = Qt.NativeGestureType.ZoomNativeGesture
        if isinstance(event, QNativeGestureEvent) and event.gestureType() is pinched:
            self._queue_zoom(
                event.position(),
                ROTATION_PER_NOTCH
                * math.log(max(1 + event.value(), MIN_PINCH_FACTOR), WHEEL_ZOOM_FACTOR),
            )
            return True
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            flow = self.board_layout.flow
            point = QPointF(event.pos())
            text = tooltip_at(flow, point, self._hidden_stages) if flow else ""
            show_tooltip(event.globalPos(), text, self.viewport())
            self._show_magnifier(point)
            return True
        return super().viewportEvent(event)

    def _show_magnifier(self, point: QPointF) -> None:
        """Show the numbers around a point at which the pointer rests, unless they are hidden."""
        flow, offset = self.board_layout.flow, self.scroll_offset()
        at, cell, hidden = point + offset, self.cell_cursor.hovered, self._hidden_stages
        framed = framed_areas(flow, cell, hidden) if flow else ()
        slots = (self.slot_at(point), *(flow.operands if flow else ()))
        for slot in slots:
            place = slot.row_column_at(at) if slot and slot.heatmap.stage not in hidden else None
            if slot and place:
                self.magnifier.show_numbers_around(slot, place, offset, framed, self._theme)

    def slot_at(self, point: QPointF) -> PanelSlot | None:
        """Return the panel whose cells contain a point of the viewport."""
        return (
            None
            if point.y() < self.board_layout.head
            else self.board_layout.slot_at(point + self.scroll_offset())
        )

    def cell_at(self, point: QPointF) -> Cell | None:
        slot = self.slot_at(point)
        place = slot.row_column_at(point + self.scroll_offset()) if slot else None
        is_free = slot is None or not slot.heatmap.is_unlinked
        if slot is None and self.board_layout.flow:
            return self.board_layout.flow.operand_cell_at(point)
        return cell_at(slot.heatmap, *place) if slot and place and is_free else None

    def nearest_cell(self, slot: PanelSlot, point: QPointF) -> Cell:
        """Return the panel's cell that is nearest to a point of the viewport."""
        at, area = point + self.scroll_offset(), slot.cells
        x = min(max(at.x(), area.left()), area.right())
        y = min(max(at.y(), area.top()), area.bottom())
        return cell_at(slot.heatmap, *(slot.row_column_at(QPointF(x, y)) or (0, 0)))
