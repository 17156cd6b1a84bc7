"""Widget with the small heatmaps of all heads, arranged by layer or sorted by a measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QPainter, QPen

from visualizer.features.layer_overview.paint import GAP_SHARE, heatmap_side, paint_overview_grid
from visualizer.features.layer_overview.presenter import LayerOverviewPanel, short_head_name
from visualizer.heatmap.cell_scroll_widget import ARROW_STEPS
from visualizer.heatmap.cell_table_widget import CellTable
from visualizer.models.model_source import HeadEditKind
from visualizer.session.head_order import HeadOrder
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.painted_message import paint_message

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPaintEvent

    from visualizer.features.layer_overview.presenter import LayerHeadIndex
    from visualizer.widgets.theme import Theme

EMPTY_MESSAGE = "Small heatmaps of all heads appear here when attention weights are available."
KEYBOARD_HELP = (
    "Press the arrow keys to move between heads, Enter to open the flow board of a head, and "
    "Delete to ablate or restore a head of a model."
)
LAYERS_LABEL, HEADS_LABEL = "layer", "head"
MIN_SPACING_PX, MAX_SPACING_PX = 6, 64
NAMED_SPACING_PX = 44
"""Spacing of small heatmaps with a name below each, in pixels at the default text size."""
ARROW_TAIL_PX = 20
FRAME_PX = 2
ABLATED_OPACITY = 0.6
"""Opacity of the overlay on an ablated head, under its cross."""


class HeadHeatmapGrid(CellTable):
    """Grid of small heatmaps, with layer and head numbers if the heads are arranged by layer."""

    ablationToggled = Signal(int, int)
    headMenuRequested = Signal(int, int, QPoint)
    """Emitted with a layer index in the run, a head and a position on the screen."""

    def __init__(self) -> None:
        super().__init__("Heads of all layers", KEYBOARD_HELP)
        self.panel = LayerOverviewPanel()
        self._image: QImage | None = None
        self._made_of: tuple[object, ...] = ()
        self._focused = 0  # cells are identified by their index in the order shown

    def show_panel(self, panel: LayerOverviewPanel, theme: Theme) -> None:
        """Show the heads, or a message if there are none."""
        if panel is self.panel and theme is self._theme:
            return
        first = min(panel.shown, default=None)
        if first != min(self.panel.shown, default=None) and first in panel.places:
            self._focused = panel.places.index(first)
        self._focused = min(self._focused, max(0, len(panel.places) - 1))
        self.panel, self._theme = panel, theme
        if self._hovered is not None and self._hovered >= len(panel.places):
            self._hovered = None
        self._update_scroll_ranges()
        self._emit_cell_description()
        self.viewport().update()

    # ------------------------------------------------------------------ places

    @property
    def _label_size(self) -> QSize:
        """Size of the space for layer and head numbers; only a frame if names are shown instead."""
        if self._has_head_names:
            return QSize(FRAME_PX, FRAME_PX)
        metrics = font_metrics(10)
        width = max(map(metrics.horizontalAdvance, (LAYERS_LABEL, HEADS_LABEL))) + 8
        return QSize(round(width), round(2 * metrics.height() + 4))

    @property
    def _arrow_tail_width(self) -> int:
        """Width of the end of the arrow, to the right of the last layer."""
        return 0 if self._has_head_names else round(ARROW_TAIL_PX * text_scale())

    @property
    def spacing(self) -> int:
        """The distance from one small heatmap to the next, in logical pixels."""
        return self.spacing_within(self.viewport().size())

    def spacing_within(self, room: QSize) -> int:
        """Return the spacing of the heatmaps if the grid has the given size."""
        labels, scale = self._label_size, text_scale()
        if self._has_head_names:
            return round(NAMED_SPACING_PX * scale)
        across = (room.width() - labels.width() - self._arrow_tail_width) // self.panel.columns
        down = (room.height() - labels.height()) // max(1, self._row_count)
        return max(MIN_SPACING_PX, min(across, down, round(MAX_SPACING_PX * scale)))

    def size_within(self, room: QSize) -> QSize:
        """Return the size that the grid needs, up to the available size; the rest is scrolled."""
        if self._has_head_names or self.panel.weights is None:
            return room
        side, labels = self.spacing_within(room), self._label_size
        width = labels.width() + self.panel.columns * side + self._arrow_tail_width
        return room.boundedTo(QSize(width, labels.height() + self._row_count * side))

    @property
    def has_hidden_heads(self) -> bool:
        """Whether some heads are outside the visible part."""
        bars = self.horizontalScrollBar(), self.verticalScrollBar()
        return any(bar.maximum() for bar in bars)

    @property
    def _has_head_names(self) -> bool:
        """Whether each head has a name, because the heads are not arranged by layer."""
        return self.panel.order is not HeadOrder.LAYER

    @property
    def _column_count(self) -> int:
        room = self.viewport().width() - FRAME_PX
        fitting = room // self.spacing if self._has_head_names else self.panel.columns
        return max(1, fitting)

    @property
    def _name_height(self) -> int:
        """Height of the name below each small heatmap."""
        return round(font_metrics(10).height()) if self._has_head_names else 0

    @property
    def _row_height(self) -> int:
        return self.spacing + self._name_height

    @property
    def _row_count(self) -> int:
        return -(-len(self.panel.places) // self._column_count)

    @property
    def _grid_size(self) -> QSize:
        return QSize(self._column_count * self.spacing, self._row_count * self._row_height)

    def heatmap_rect(self, index: int) -> QRect:
        """Return the rectangle of the small heatmap at an index, in viewport coordinates."""
        row, column = divmod(index, self._column_count)
        inner = heatmap_side(self.spacing)
        corner = QPoint(column * self.spacing, row * self._row_height) + self._grid_origin
        return QRect(corner, QSize(inner, inner))

    def _cell_rect(self, cell: int) -> QRect:
        return self.heatmap_rect(cell)

    def _describe_cell(self, cell: int) -> str:
        return self.panel.describe_head(self._place_at_index(cell)) if self.panel.places else ""

    @property
    def _grid_origin(self) -> QPoint:
        labels = self._label_size
        return QPoint(
            labels.width() - self.horizontalScrollBar().value(),
            labels.height() - self.verticalScrollBar().value(),
        )

    def _cell_at(self, position: QPointF) -> int | None:
        if position.y() < self._label_size.height() or position.x() < self._label_size.width():
            return None
        at = position.toPoint() - self._grid_origin
        row, column = at.y() // self._row_height, at.x() // self.spacing
        index = row * self._column_count + column
        is_inside = 0 <= column < self._column_count and 0 <= index < len(self.panel.places)
        return index if is_inside else None

    def _update_scroll_ranges(self) -> None:
        labels, view = self._label_size, self.viewport().size()
        whole, room = self._grid_size, view - labels
        for bar, size, seen in (
            (self.horizontalScrollBar(), whole.width(), room.width()),
            (self.verticalScrollBar(), whole.height(), room.height()),
        ):
            bar.setRange(0, max(0, size - seen))
            bar.setPageStep(seen)
            bar.setSingleStep(self._row_height)

    # ------------------------------------------------------------------ painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setFont(scaled_font(10))
        quiet = QColor(self._theme.quiet)
        if self.panel.weights is None:
            painter.setPen(quiet)
            message = self.panel.message or EMPTY_MESSAGE
            paint_message(painter, self.viewport().rect(), message, 10, is_on_top=True)
            return
        labels = self._label_size
        painter.save()
        left, top = labels.width() - FRAME_PX, labels.height() - FRAME_PX
        painter.setClipRect(self.viewport().rect().adjusted(left, top, 0, 0))
        self._paint_heads(painter)
        painter.restore()
        painter.setPen(quiet)
        if self._has_head_names:
            self._paint_head_names(painter)
        else:
            self._paint_layer_and_head_numbers(painter)

    def _paint_heads(self, painter: QPainter) -> None:
        ratio = self.devicePixelRatioF()
        side, below = round(self.spacing * ratio), round(self._name_height * ratio)
        made_of = (self.panel, self._theme.name, side, self._column_count, below)
        if made_of != self._made_of or self._image is None:
            self._image = paint_overview_grid(
                self.panel, side, self._theme, self._column_count, below
            )
            self._made_of = made_of
        painter.drawImage(QRect(self._grid_origin, self._grid_size), self._image)
        ink, veil = QColor(self._theme.ink), QColor(self._theme.paper)
        veil.setAlphaF(ABLATED_OPACITY)  # keep the weights visible: they are still computed
        for place, becomes in self.panel.edits.items():
            box = self.heatmap_rect(self.panel.places.index(place))
            painter.fillRect(box, veil)
            painter.setPen(QPen(ink, 1))
            painter.drawLine(box.topRight(), box.bottomLeft())
            if becomes == HeadEditKind.OFF:
                painter.drawLine(box.topLeft(), box.bottomRight())
        accent = QColor(self._theme.accent)
        for place in self.panel.shown:
            self._paint_frame(painter, self.panel.places.index(place), accent, 2)
        if self._hovered is not None:
            self._paint_frame(painter, self._hovered, ink, 1)
        if self.hasFocus():
            self._paint_frame(painter, self._focused, ink, 2)

    def _paint_frame(self, painter: QPainter, index: int, colour: QColor, width: int) -> None:
        painter.setPen(QPen(colour, width))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        out = width / 2
        painter.drawRect(QRectF(self.heatmap_rect(index)).adjusted(-out, -out, out, out))

    def _paint_head_names(self, painter: QPainter) -> None:
        """Paint the layer and head numbers below each visible small heatmap."""
        bottom = self.viewport().height()
        first = max(0, -self._grid_origin.y() // self._row_height) * self._column_count
        for index in range(first, len(self.panel.places)):
            box = QRectF(self.heatmap_rect(index))
            if box.top() > bottom:
                return
            layer, head = self.panel.places[index]
            place = QRectF(box.left(), box.top() + self.spacing - 2, box.width(), self._name_height)
            words = short_head_name(self.panel.layers[layer] + 1, head + 1)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip, words)

    def _paint_layer_and_head_numbers(self, painter: QPainter) -> None:
        """Paint the layer and head numbers, and the residual stream as an arrow."""
        labels, side, lines = self._label_size, self.spacing, font_metrics(10)
        line, origin = round(lines.height()), self._grid_origin
        corner = QRectF(0, 0, labels.width() - 5, line)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(corner, right, LAYERS_LABEL)
        painter.drawText(corner.translated(0, line), right, HEADS_LABEL)
        in_front = next(iter(self.panel.shown)) if len(self.panel.shown) == 1 else None
        painter.save()
        painter.setClipRect(0, labels.height(), labels.width(), self.viewport().height())
        for head in range(0, self._row_count, max(1, -(-line // side))):
            box = QRectF(0, origin.y() + head * side, labels.width() - 5, (1 - GAP_SHARE) * side)
            self._set_label_pen(painter, is_in_front=in_front is not None and head == in_front[1])
            painter.drawText(box, right | Qt.TextFlag.TextDontClip, str(head + 1))
        painter.restore()
        painter.setClipRect(labels.width(), 0, self.viewport().width(), labels.height())
        wide = lines.horizontalAdvance(f"{max(self.panel.layers) + 1} ")
        for layer in range(0, self.panel.columns, max(1, -(-round(wide) // side))):
            box = QRectF(origin.x() + layer * side, 0, (1 - GAP_SHARE) * side, line)
            self._set_label_pen(painter, is_in_front=in_front is not None and layer == in_front[0])
            centre = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip
            painter.drawText(box, centre, str(self.panel.layers[layer] + 1))
        self._set_label_pen(painter, is_in_front=False)
        end = QPointF(
            origin.x() + self.panel.columns * side + self._arrow_tail_width,
            labels.height() - line / 2,
        )
        painter.drawLine(QPointF(origin.x(), end.y()), end)
        painter.setBrush(painter.pen().color())
        painter.drawPolygon([end, end + QPointF(-7, -4), end + QPointF(-7, 4)])

    def _set_label_pen(self, painter: QPainter, *, is_in_front: bool) -> None:
        painter.setPen(QColor(self._theme.accent if is_in_front else self._theme.quiet))

    # ------------------------------------------------------------------ input

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._cell_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and index is not None:
            self._focused = index
            self.chosen.emit(*self.panel.places[index])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        at = self.heatmap_rect(self._focused).center() if is_by_key else event.pos()
        index = self._focused if is_by_key else self._cell_at(QPointF(event.pos()))
        if index is not None and self.panel.places:
            place = self._place_at_index(index)
            self.headMenuRequested.emit(*place, self.viewport().mapToGlobal(at))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in ARROW_STEPS and not event.modifiers() and self.panel.places:
            down, right = ARROW_STEPS[key]
            to = self._focused + down * self._column_count + right
            if 0 <= to < len(self.panel.places):
                labels = self._label_size
                self._focus_cell(to, labels.width(), labels.height())
        elif key in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and self.panel.places:
            self.chosen.emit(*self.panel.places[self._focused])
        elif key == Qt.Key.Key_Delete and self.panel.places:
            self._toggle_ablation(self._focused)
        else:
            super().keyPressEvent(event)

    def _toggle_ablation(self, index: int) -> None:
        layer, head = self._place_at_index(index)
        if self.panel.is_switchable:
            self.ablationToggled.emit(self.panel.layers[layer], head)

    def _place_at_index(self, index: int) -> LayerHeadIndex:
        return self.panel.places[min(index, len(self.panel.places) - 1)]
