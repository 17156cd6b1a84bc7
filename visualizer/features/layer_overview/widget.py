"""Overview of all heads in the centre of the window; a click on a head opens its flow board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QSpinBox, QWidget

from visualizer.features.layer_overview.findings_widget import FindingsRow
from visualizer.features.layer_overview.grid_widget import HeadHeatmapGrid
from visualizer.features.layer_overview.paint import describe_colour_scale, paint_colour_scale
from visualizer.features.layer_overview.presenter import LAYERS_PANEL, LayerOverviewPanel
from visualizer.generation.token_bars_widget import NextTokenProbabilityBars
from visualizer.session.head_order import ORDERS, HeadOrder
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent, QResizeEvent

    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

MARGIN_PX, SPACING_PX = 16, 8
DEFAULT_ABLATED_COUNT = 10
"""Default number of heads that are ablated together."""
NEXT_TOKENS_WIDTH_PX = 230
MIN_SIZE_PX = QSize(380, 220)
MIN_WIDTH_WITH_TOKENS_PX = 600
"""Minimum width at which the page shows next tokens, in pixels at the default text size."""
MIN_SPACING_WITH_FINDINGS_PX = 10
"""Minimum spacing of heatmaps with findings below, in pixels at the default text size."""
LEGEND_BAR_PX = 90
LAYERS_NOTE = "Layers are shown from left to right, in the order of computation."
NAMING_NOTE = "Heads are named by layer and head, for example 5.2."
"""Note shown if the heatmaps are not arranged by layer."""
SCROLLED_NOTE = "Scroll to see all heads."
HINT = "Point at a head for a description. Click a head to open its flow board."
HINT_SWITCHABLE = f"{HINT[:-1]}, or right-click it to ablate or restore it."
WIDE_PAGE_PX = 900
"""Minimum width, in pixels at the default text size, at which descriptions fit on two lines."""


class LayerOverviewPane(QWidget):
    """Page with all heads, the most likely next tokens, and the strongest head for each pattern."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    orderChosen = Signal(str)
    headChosen = Signal(int, int)
    """Emitted with a layer index in the run and a head to show on the flow board."""
    heatmapsRequested = Signal()
    """Emitted after `headChosen`."""
    headAblationToggled = Signal(int, int)
    """Emitted with a layer number in the model and a head to ablate or restore."""
    headMenuRequested = Signal(int, int, QPoint)
    """Emitted with a layer index in the run, a head and a position on the screen."""
    firstHeadsAblated = Signal(object)
    """Emitted with pairs of a layer number in the model and a head to ablate."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Layers")
        self.order, self.description = QComboBox(), PlainTextLabel()
        for row in ORDERS:
            self.order.addItem(row.title, row.order)
        self.order.setAccessibleName("Sort heads by")
        self.order.setObjectName("head_order")
        self.order.setToolTip(plain_tooltip("Order of the heads"))
        self.order.activated.connect(self._emit_order_chosen)
        self.legend, self.next_tokens = ColourScaleLegend(), NextTokenBars()
        self.grid, self.findings = HeadHeatmapGrid(), FindingsRow()
        self.setFocusProxy(self.grid)
        for part in (self.grid, self.findings):
            part.chosen.connect(self.headChosen)
            part.chosen.connect(self.heatmapsRequested)
            part.headMenuRequested.connect(self.headMenuRequested)
        self.grid.ablationToggled.connect(self.headAblationToggled)
        self.grid.pointed.connect(self._show_description)
        self.description.setWordWrap(True)
        self.description.setProperty("role", "quiet")
        self.description.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._column = column_layout(self, (MARGIN_PX, 10, MARGIN_PX, 10), spacing=SPACING_PX)
        self._column.addLayout(self._build_header())
        body = row_layout(spacing=MARGIN_PX)
        body.addWidget(self.grid, 0, Qt.AlignmentFlag.AlignTop)
        body.addWidget(self.next_tokens, 0, Qt.AlignmentFlag.AlignTop)
        body.addStretch(1)
        self._column.addLayout(body)
        self._column.addWidget(self.description)
        self._column.addWidget(self.findings)
        self._column.addStretch(1)
        self._words = ""
        self._show_description("")

    def _build_header(self) -> QHBoxLayout:
        self.title = PlainTextLabel("All layers and heads")
        row = row_layout(spacing=12)
        row.addWidget(self.title)
        row.addWidget(self.order)
        row.addWidget(self._build_ablation_row())
        row.addStretch(1)
        row.addWidget(self.legend)
        return row

    def _build_ablation_row(self) -> QWidget:
        """Build the row that ablates the first heads of the order."""
        self.first, self.count = QWidget(), QSpinBox()
        self.ablate_button = QPushButton("Ablate the first")
        self.count.setRange(1, 9_999)
        self.count.setValue(DEFAULT_ABLATED_COUNT)
        self.count.setAccessibleName("Number of heads to ablate")
        self.count.setToolTip(plain_tooltip("Number of heads to ablate"))
        self.ablate_button.setToolTip(plain_tooltip("Ablate the first heads in this order"))
        self.ablate_button.clicked.connect(self._emit_first_heads)
        install_input_filters(self.count)
        row = row_layout(self.first, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.ablate_button)
        row.addWidget(self.count)
        return self.first

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(LAYERS_PANEL)
        self.title.setStyleSheet(f"font-size: {round(16 * text_scale())}px; font-weight: 600")
        self.first.setVisible(panel.is_switchable and panel.order is not HeadOrder.LAYER)
        self.order.setCurrentIndex(self.order.findData(screen.wanted.head_order))
        self.order.setEnabled(bool(panel.places))
        self.legend.show_panel(panel, theme)
        self.grid.show_panel(panel, theme)
        self.next_tokens.show_panel(panel, theme)
        self.findings.show_panel(panel, theme)
        self._arrange_parts()
        self._show_description(self._words)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange_parts()

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:
        """Return a fixed size, because the sizes of the parts depend on the size of this page."""
        return MIN_SIZE_PX * text_scale()

    def _arrange_parts(self) -> None:
        """Give the grid the space that it needs, and the findings the rest if there is enough."""
        scale, panel = text_scale(), self.grid.panel
        width = self.width() - 2 * MARGIN_PX
        self.legend.setVisible(bool(panel.ranges) and width >= MIN_WIDTH_WITH_TOKENS_PX * scale)
        has_tokens = bool(panel.next_tokens) and width >= MIN_WIDTH_WITH_TOKENS_PX * scale
        tokens_width = round(NEXT_TOKENS_WIDTH_PX * scale) * has_tokens
        self.next_tokens.setVisible(has_tokens)
        self.next_tokens.setFixedWidth(max(1, tokens_width))
        lines = 2 if width >= WIDE_PAGE_PX * scale else 3
        words = round(lines * self.description.fontMetrics().lineSpacing())
        self.description.setFixedHeight(words)
        margins, header = self._column.contentsMargins(), self.order.sizeHint().height()
        used = margins.top() + margins.bottom() + header + words + 3 * SPACING_PX
        across = width - (tokens_width + MARGIN_PX) * has_tokens
        room = QSize(across, max(1, self.height() - used))
        least = self.findings.height_within(width, 0)
        room_of_grid = QSize(across, max(1, room.height() - least))
        is_roomy = self.grid.spacing_within(room_of_grid) >= MIN_SPACING_WITH_FINDINGS_PX * scale
        are_shown = self.findings.has_content and is_roomy and room_of_grid.height() > least / 2
        size = self.grid.size_within(room_of_grid if are_shown else room)
        self.grid.setFixedSize(size)
        self.findings.setVisible(are_shown)
        if are_shown:
            rest = room.height() - max(size.height(), self.next_tokens.sizeHint().height())
            self.findings.setFixedHeight(self.findings.height_within(width, rest))

    def _emit_first_heads(self) -> None:
        places = self.grid.panel.places[: self.count.value()]
        layers = self.grid.panel.layers
        self.firstHeadsAblated.emit(tuple((layers[layer], head) for layer, head in places))

    def _emit_order_chosen(self, index: int) -> None:
        self.orderChosen.emit(self.order.itemData(index))

    def _show_description(self, words: str) -> None:
        self._words = words
        panel = self.grid.panel
        hint = HINT_SWITCHABLE if panel.is_switchable else HINT
        arrangement = LAYERS_NOTE if panel.order is HeadOrder.LAYER else NAMING_NOTE
        parts = (panel.note, arrangement, SCROLLED_NOTE * self.grid.has_hidden_heads, hint)
        self.description.setText(words or " ".join(part for part in parts if part))


class ColourScaleLegend(QWidget):
    """Legend of the colour scale, with its limits."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Colours of the weights")
        self._panel, self._theme = LayerOverviewPanel(), LIGHT

    def show_panel(self, panel: LayerOverviewPanel, theme: Theme) -> None:
        """Show the scale of a panel."""
        self._panel, self._theme = panel, theme
        if panel.ranges:
            set_accessible_value(self, describe_colour_scale(panel))
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        metrics = font_metrics(11)
        words = describe_colour_scale(self._panel) if self._panel.ranges else ""
        width = LEGEND_BAR_PX * text_scale() + 8 + metrics.horizontalAdvance(words)
        return QSize(round(width) + 1, round(metrics.height()))

    def minimumSizeHint(self) -> QSize:
        return QSize(round(LEGEND_BAR_PX * text_scale()), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics = QPainter(self), font_metrics(11)
        width = LEGEND_BAR_PX * text_scale()
        bar = QRectF(0, self.height() / 2 - 4, width, 8)
        painter.drawImage(bar, paint_colour_scale(self._panel, self._theme))
        painter.setFont(scaled_font(11))
        painter.setPen(QColor(self._theme.quiet))
        room = QRectF(self.rect()).adjusted(width + 8, 0, 0, 0)
        words = metrics.elidedText(
            describe_colour_scale(self._panel), Qt.TextElideMode.ElideRight, room.width()
        )
        painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, words)
        painter.end()


class NextTokenBars(QWidget):
    """The most likely next tokens, to the right of the arrow for the residual stream."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Next token")
        self.title, self.after, self.bars = (
            PlainTextLabel("Next token"),
            PlainTextLabel(),
            NextTokenProbabilityBars(),
        )
        self.title.setStyleSheet("font-weight: 600")
        self.after.setProperty("role", "quiet")
        column = column_layout(self, (0, 0, 0, 0), spacing=4)
        for part in (self.title, self.after, self.bars):
            column.addWidget(part)

    def show_panel(self, panel: LayerOverviewPanel, theme: Theme) -> None:
        """Show the next tokens, and the last words of the text that they follow."""
        metrics = self.after.fontMetrics()
        room = round(NEXT_TOKENS_WIDTH_PX * text_scale()) - metrics.horizontalAdvance("after “” ")
        words = metrics.elidedText(panel.end_of_text, Qt.TextElideMode.ElideLeft, room)
        self.after.setText(f"after “{words}”")
        self.after.setVisible(bool(words))
        self.bars.show_rows(panel.next_tokens, panel.is_edited, theme)
