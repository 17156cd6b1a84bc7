"""The Layers pane: every head of every layer as a small heatmap; a click shows it on the board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter, QPen
from PySide6.QtWidgets import (
    QComboBox,
    QPushButton,
    QSpinBox,
    QWidget,
)

from visualizer.features.layer_overview.paint import GAP_SHARE, paint_overview_grid
from visualizer.features.layer_overview.presenter import LAYERS_PANEL, LayerOverviewPanel
from visualizer.heatmap.cell_pointing_widget import ARROW_STEPS
from visualizer.heatmap.cell_table_widget import CellTable
from visualizer.models.model_source import HeadEditKind
from visualizer.session.head_order import ORDERS, HeadOrder
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.painted_message import paint_message

if TYPE_CHECKING:
    from PySide6.QtGui import (
        QImage,
        QKeyEvent,
        QMouseEvent,
        QPaintEvent,
    )

    from visualizer.features.layer_overview.presenter import LayerHeadIndex
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

EMPTY_MESSAGE = "Small heatmaps of all heads appear here when attention weights are available."
KEYBOARD_HELP = (
    "Press the arrow keys to move between heads, Enter to show a head in the heatmaps, and Delete "
    "to ablate or restore a head of a model."
)
PANE_WIDTH_PX = 252
DEFAULT_ABLATED_COUNT = 10
"""Number of heads ablated together until the user chooses another."""
MIN_SPACING_PX, MAX_SPACING_PX = 14, 64
MIN_NAMED_SPACING_PX = 38
"""Spacing of named small heatmaps, in pixels at the default text size."""
ABLATED_OPACITY = 0.6
"""Opacity of the overlay on an ablated head, under its cross."""
HINT = "Point at a head for a description; click to show it."
HINT_SWITCHABLE = f"{HINT[:-1]}, right-click to ablate or restore it."
NAMING_NOTE = "Heads are named by layer and head, for example 5.2."
"""Note shown if the heatmaps are not arranged in one row per layer."""
MAX_DESCRIPTION_LINES = 5
"""Maximum number of lines of a head's description."""


class LayerOverviewPane(QWidget):
    """The order, the grid, and a description of the head under the pointer."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    orderChosen = Signal(str)
    headChosen = Signal(int, int)
    """A layer index in the run and a head to show on the board."""
    headAblationToggled = Signal(int, int)
    """A layer number in the model and a head to ablate or restore."""
    firstHeadsAblated = Signal(object)
    """Layer numbers in the model with their heads, to ablate together."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Layers")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.order, self.description = QComboBox(), PlainLabel()
        for row in ORDERS:
            self.order.addItem(row.title, row.order)
        self.order.setAccessibleName("Sort heads by")
        self.order.setObjectName("head_order")
        self.order.setToolTip(plain_tooltip("Order of the heads"))
        self.order.activated.connect(self._choose_order)
        self.grid = HeadGrid()
        self.grid.chosen.connect(self.headChosen)
        self.grid.ablationToggled.connect(self.headAblationToggled)
        self.grid.pointed.connect(self._show_description)
        self.description.setWordWrap(True)
        self.description.setProperty("role", "quiet")
        self.description.setAlignment(Qt.AlignmentFlag.AlignTop)
        column = column_layout(self, (12, 4, 8, 8), spacing=6)
        column.addWidget(self.order, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._build_ablation_row())
        column.addWidget(self.grid, 1)
        column.addWidget(self.description)
        self._words = ""
        self._show_description("")

    def _build_ablation_row(self) -> QWidget:
        """Build the row that ablates the first heads of the order."""
        self.first, self.count = QWidget(), QSpinBox()
        self.ablate_button = QPushButton("Ablate the first")
        self.count.setRange(1, 9_999)
        self.count.setValue(DEFAULT_ABLATED_COUNT)
        self.count.setAccessibleName("Number of heads to ablate")
        self.count.setToolTip(plain_tooltip("Number of heads to ablate"))
        self.ablate_button.setToolTip(plain_tooltip("Ablate the first heads in this order"))
        self.ablate_button.clicked.connect(self._ablate_first)
        install_input_filters(self.count)
        row = row_layout(self.first, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.ablate_button)
        row.addWidget(self.count)
        row.addStretch(1)
        return self.first

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(LAYERS_PANEL)
        self.first.setVisible(panel.is_switchable and panel.order is not HeadOrder.LAYER)
        self.order.setCurrentIndex(self.order.findData(screen.wanted.head_order))
        self.order.setEnabled(bool(panel.places))
        self.description.setFixedHeight(
            MAX_DESCRIPTION_LINES * self.description.fontMetrics().lineSpacing()
        )
        self.grid.show_panel(panel, theme)
        self._show_description(self._words)

    def _ablate_first(self) -> None:
        places = self.grid.panel.places[: self.count.value()]
        layers = self.grid.panel.layers
        self.firstHeadsAblated.emit(tuple((layers[layer], head) for layer, head in places))

    def _choose_order(self, index: int) -> None:
        self.orderChosen.emit(self.order.itemData(index))

    def _show_description(self, words: str) -> None:
        self._words = words
        hint = HINT_SWITCHABLE if self.grid.panel.is_switchable else HINT
        is_by_layer = self.order.currentData() == HeadOrder.LAYER
        parts = (self.grid.panel.note, "" if is_by_layer else NAMING_NOTE, hint)
        self.description.setText(words or " ".join(part for part in parts if part))


class HeadGrid(CellTable):
    """The small heatmaps, with layer and head numbers if they are arranged by layer."""

    ablationToggled = Signal(int, int)

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
        self._announce_cell()
        self.viewport().update()

    # ------------------------------------------------------------------ places

    @property
    def _label_size(self) -> QSize:
        """Size of the layer and head labels; empty if each head has its own name."""
        if self._is_named:
            return QSize(0, 0)
        line = font_metrics(10).height()
        return QSize(round(24 * text_scale()), round(line + 2))

    @property
    def spacing(self) -> int:
        """The distance from one small heatmap to the next, in logical pixels."""
        view, labels, scale = self.viewport().size(), self._label_size, text_scale()
        if self._is_named:
            return round(MIN_NAMED_SPACING_PX * scale)
        across = (view.width() - labels.width()) // self.panel.columns
        down = (view.height() - labels.height()) // max(1, self._row_count)
        return max(round(MIN_SPACING_PX * scale), min(across, down, round(MAX_SPACING_PX * scale)))

    @property
    def _is_named(self) -> bool:
        """Whether heads are named because they are not in the order of the model."""
        return self.panel.order is not HeadOrder.LAYER

    @property
    def _column_count(self) -> int:
        fitting = self.viewport().width() // self.spacing if self._is_named else self.panel.columns
        return max(1, fitting)

    @property
    def _name_height(self) -> int:
        """Height of the name under each small heatmap."""
        return round(font_metrics(10).height()) if self._is_named else 0

    @property
    def _row_height(self) -> int:
        return self.spacing + self._name_height

    @property
    def _row_count(self) -> int:
        return -(-len(self.panel.places) // self._column_count)

    @property
    def _grid_size(self) -> QSize:
        return QSize(self._column_count * self.spacing, self._row_count * self._row_height)

    def rect_of(self, index: int) -> QRect:
        """Return the rectangle of the small heatmap at an index, in viewport coordinates."""
        row, column = divmod(index, self._column_count)
        inner = self.spacing - max(1, round(GAP_SHARE * self.spacing))
        corner = QPoint(column * self.spacing, row * self._row_height) + self._grid_origin
        return QRect(corner, QSize(inner, inner))

    def _box_of(self, cell: int) -> QRect:
        return self.rect_of(cell)

    def _describe_cell(self, cell: int) -> str:
        return self.panel.describe(self._place_at_index(cell)) if self.panel.places else ""

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
        painter.setClipRect(self.viewport().rect().adjusted(labels.width(), labels.height(), 0, 0))
        self._paint_heads(painter)
        painter.restore()
        painter.setPen(quiet)
        if self._is_named:
            self._paint_names(painter)
        else:
            self._paint_numbers(painter)

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
            box = self.rect_of(self.panel.places.index(place))
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
        painter.drawRect(QRectF(self.rect_of(index)).adjusted(-out, -out, out, out))

    def _paint_names(self, painter: QPainter) -> None:
        """Paint the layer and head numbers under each visible small heatmap."""
        bottom = self.viewport().height()
        first = max(0, -self._grid_origin.y() // self._row_height) * self._column_count
        for index in range(first, len(self.panel.places)):
            box = QRectF(self.rect_of(index))
            if box.top() > bottom:
                return
            layer, head = self.panel.places[index]
            place = QRectF(box.left(), box.top() + self.spacing - 2, box.width(), self._name_height)
            words = f"{self.panel.layers[layer] + 1}.{head + 1}"
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip, words)

    def _paint_numbers(self, painter: QPainter) -> None:
        labels, side, lines = self._label_size, self.spacing, font_metrics(10)
        every = max(1, -(-round(lines.height()) // side))
        painter.save()
        painter.setClipRect(0, labels.height(), labels.width(), self.viewport().height())
        for row, layer in enumerate(self.panel.layers):
            if row % every == 0:
                top = self._grid_origin.y() + row * side
                box = QRectF(0, top, labels.width() - 5, side)
                flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                painter.drawText(box, flags, str(layer + 1))
        painter.restore()
        painter.setClipRect(labels.width(), 0, self.viewport().width(), labels.height())
        wide = lines.horizontalAdvance(f"{self.panel.columns} ")
        every = max(1, -(-round(wide) // side))
        for column in range(0, self.panel.columns, every):
            box = QRectF(self._grid_origin.x() + column * side, 0, side, labels.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(column + 1))

    # ------------------------------------------------------------------ input

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._cell_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and index is not None:
            self._focused = index
            self.chosen.emit(*self.panel.places[index])
        elif event.button() is Qt.MouseButton.RightButton and index is not None:
            self._toggle_head(index)

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
            self._toggle_head(self._focused)
        else:
            super().keyPressEvent(event)

    def _toggle_head(self, index: int) -> None:
        layer, head = self._place_at_index(index)
        if self.panel.is_switchable:
            self.ablationToggled.emit(self.panel.layers[layer], head)

    def _place_at_index(self, index: int) -> LayerHeadIndex:
        return self.panel.places[min(index, len(self.panel.places) - 1)]
