"""Cards with the strongest head for each attention pattern; a click opens the head."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from visualizer.features.layer_overview.paint import paint_head_heatmap
from visualizer.features.layer_overview.presenter import LayerOverviewPanel, short_head_name
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent, QResizeEvent

    from visualizer.features.layer_overview.findings import Finding
    from visualizer.widgets.theme import Theme

TITLE = "Notable heads"
STRONGEST_NOTE = "The strongest head for each pattern in this text"
NOTHING_NOTE = "No head differs clearly from uniform attention in this text."
RANDOM_NOTE = "The weights of the model are random, so any attention pattern is due to chance."
CARD_WIDTH_PX, MAX_CARD_WIDTH_PX = 168, 300
MIN_MAP_PX, MAX_MAP_PX = 64, 280
PADDING_PX, PART_GAP_PX, HEADING_GAP_PX = 10, 7, 6
TITLE_PX, TEXT_PX = 12, 11
VALUE_LINES = 2
WRAPPED = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap


class FindingsRow(QWidget):
    """A row of cards with findings; cards that do not fit are hidden."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    chosen = Signal(int, int)
    headMenuRequested = Signal(int, int, QPoint)
    """Emitted with a layer index in the run, a head and a position on the screen."""

    def __init__(self) -> None:
        super().__init__()
        self._panel = LayerOverviewPanel()
        self.setAccessibleName(TITLE)
        self.title, self.note = PlainTextLabel(TITLE), PlainTextLabel()
        self.title.setStyleSheet("font-weight: 600")
        self.note.setProperty("role", "quiet")
        self.cards: list[FindingCard] = []
        self.has_content = False
        self._count = 0
        heading = row_layout(spacing=12)
        heading.addWidget(self.title)
        heading.addWidget(self.note, 1)
        self._row = row_layout(spacing=12)
        column = column_layout(self, (0, 0, 0, 0), spacing=HEADING_GAP_PX)
        column.addLayout(heading)
        self._row.addStretch(1)
        column.addLayout(self._row, 1)

    def show_panel(self, panel: LayerOverviewPanel, theme: Theme) -> None:
        """Show the findings of a panel, or the reason why there are none."""
        self._panel = panel
        self.has_content = panel.is_random or bool(panel.uniform)
        found = panel.findings
        note = RANDOM_NOTE if panel.is_random else STRONGEST_NOTE if found else NOTHING_NOTE
        self.note.setText(note)
        while len(self.cards) < len(found):
            card = FindingCard()
            card.clicked.connect(self._choose_head)
            card.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            card.customContextMenuRequested.connect(self._request_head_menu)
            self.cards.append(card)
            self._row.insertWidget(len(self.cards) - 1, card, 100)
        for card, finding in zip(self.cards, found, strict=False):
            card.show_finding(finding, panel, theme)
        for card in self.cards[len(found) :]:
            card.clear()
        self._count = len(found)
        self._show_fitting_cards()

    def height_within(self, width: int, room: int) -> int:
        """Return the row's height: at most the available height, but enough for small heatmaps.

        Parameters
        ----------
        width : int
            Width of the row, in pixels.
        room : int
            Available height, in pixels.
        """
        heading = self.title.sizeHint().height()
        if not self._count:
            return heading
        card, words = self._card_size(width)
        scale = text_scale()
        least, most = (round(side * scale) for side in (MIN_MAP_PX, MAX_MAP_PX))
        around = heading + HEADING_GAP_PX + words + card_frame_height()
        side = min(most, card - 2 * PADDING_PX, room - around)
        return around + max(least, side)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_fitting_cards()

    def _show_fitting_cards(self) -> None:
        shown, (_, words) = self._fitting_count(self.width()), self._card_size(self.width())
        for at, card in enumerate(self.cards):
            card.reserved_height = words
            card.setVisible(at < shown)

    def _card_size(self, width: int) -> tuple[int, int]:
        """Return the width of each card, and the height of the longest text of a card."""
        spacing, count = self._row.spacing(), max(1, self._fitting_count(width))
        most = round(MAX_CARD_WIDTH_PX * text_scale())
        card = min((width + spacing) // count - spacing, most)
        cards = self.cards[: self._count]
        return card, max((each.text_height(card) for each in cards), default=0)

    def _fitting_count(self, width: int) -> int:
        """Return the number of cards that fit; at least one is shown if there are any."""
        least, spacing = round(CARD_WIDTH_PX * text_scale()), self._row.spacing()
        return min(self._count, max(1, (width + spacing) // (least + spacing)))

    def _choose_head(self) -> None:
        card = self.sender()
        if isinstance(card, FindingCard) and card.finding:
            self.chosen.emit(*card.finding.place)

    def _request_head_menu(self, at: QPoint) -> None:
        card = self.sender()
        if isinstance(card, FindingCard) and card.finding:
            self.headMenuRequested.emit(*card.finding.place, card.mapToGlobal(at))


def card_frame_height() -> int:
    """Return the height of a card without its heatmap and the text below, in pixels."""
    return math.ceil(font_metrics(TITLE_PX).height() + 2 * PADDING_PX + 2 * PART_GAP_PX)


class FindingCard(QAbstractButton):
    """A card with the pattern, name, heatmap and values of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.finding: Finding | None = None
        self.reserved_height = 0
        """Height in pixels reserved for the text, the same for all cards; heatmaps get the rest."""
        self._panel, self._theme = LayerOverviewPanel(), LIGHT
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setMaximumWidth(round(MAX_CARD_WIDTH_PX * text_scale()))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_finding(self, finding: Finding, panel: LayerOverviewPanel, theme: Theme) -> None:
        """Show a finding of a panel."""
        self.finding, self._panel, self._theme = finding, panel, theme
        self.setAccessibleName(f"{finding.title}: {panel.head_name(finding.place)}")
        self.setAccessibleDescription(
            f"{finding.reads}; {finding.value}, uniform attention {finding.chance}"
        )
        self.setToolTip(plain_tooltip(panel.describe_head(finding.place)))
        self.update()

    def clear(self) -> None:
        """Release the finding and its panel, which holds the weights of a model."""
        self.finding, self._panel = None, LayerOverviewPanel()

    def sizeHint(self) -> QSize:
        return QSize(round(CARD_WIDTH_PX * text_scale()), 0)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def text_height(self, width: int) -> int:
        """Return the height of the text below the heatmap of a card with the given width."""
        return math.ceil(
            self._description_height(width) + VALUE_LINES * font_metrics(TEXT_PX).height()
        )

    def _description_height(self, width: float) -> float:
        room = QRectF(0, 0, width - 2 * PADDING_PX, 1000)
        words = self.finding.reads if self.finding else ""
        return font_metrics(TEXT_PX).boundingRect(room, WRAPPED, words).height()

    def paintEvent(self, event: QPaintEvent) -> None:
        finding, panel, theme = self.finding, self._panel, self._theme
        if finding is None or panel.weights is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_in_front = finding.place in panel.shown
        frame = QPen(QColor(theme.accent if is_in_front else theme.hairline), 1 + is_in_front)
        if self.underMouse() and not is_in_front:
            frame.setColor(QColor(theme.border))
        painter.setPen(frame)
        painter.setBrush(QColor(theme.field))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)
        inside = QRectF(self.rect()).adjusted(PADDING_PX, PADDING_PX, -PADDING_PX, -PADDING_PX)
        title = font_metrics(TITLE_PX).height()
        self._paint_title(painter, QRectF(inside.left(), inside.top(), inside.width(), title))
        top = inside.top() + title + PART_GAP_PX
        words = self.reserved_height
        side = math.floor(min(inside.width(), inside.bottom() - words - PART_GAP_PX - top))
        if side > 0:
            image = paint_head_heatmap(
                panel, finding.place, round(side * self.devicePixelRatioF()), theme
            )
            painter.drawImage(QRectF(inside.left(), top, side, side), image)
        self._paint_description(
            painter, inside.adjusted(0, top + side + PART_GAP_PX - inside.top(), 0, 0)
        )
        painter.end()

    def _paint_title(self, painter: QPainter, room: QRectF) -> None:
        assert self.finding
        layer, head = self.finding.place
        flags = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(scaled_font(TITLE_PX, QFont.Weight.DemiBold))
        painter.setPen(QColor(self._theme.ink))
        painter.drawText(room, flags | Qt.AlignmentFlag.AlignLeft, self.finding.title)
        painter.setFont(scaled_font(TITLE_PX))
        painter.setPen(QColor(self._theme.quiet))
        numbers = self._panel.layers[layer] + 1, head + 1
        right = flags | Qt.AlignmentFlag.AlignRight
        painter.drawText(room, right, short_head_name(*numbers))

    def _paint_description(self, painter: QPainter, room: QRectF) -> None:
        assert self.finding
        painter.setFont(scaled_font(TEXT_PX))
        painter.setPen(QColor(self._theme.ink))
        painter.drawText(room, WRAPPED, self.finding.reads)
        painter.setPen(QColor(self._theme.quiet))
        values = f"{self.finding.value}\nuniform attention {self.finding.chance}"
        below = room.adjusted(0, self._description_height(self.width()), 0, 0)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, values)
