"""The Next token pane: bars of probabilities, the heads that are off, and buttons to switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QPushButton, QScrollArea, QWidget

from visualizer.features.next_token.presenter import NEXT_TOKEN, NextTokenPanel
from visualizer.models.model_source import heads_in_words
from visualizer.number_format import format_share
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.fonts import font, text_scale
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.attention.model_reading import NextToken
    from visualizer.session.screen import Screen

WIDTH = 252
LINE = 22
"""The height of a row, in pixels at the usual text size."""
WIDEST = (0.9999, 0.0001, 0.996, 1.0)
"""Shares whose percentages are the widest."""
BLANK = "·"
"""Stands for a blank at the edge of a token."""


class NextTokenPane(QScrollArea):
    """Bars over what is switched off."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    switched = Signal()
    """The head that is shown alone is to be switched off or on."""
    allOn = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Next token")
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its buttons take the focus
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self.message, self.key, self.off, self.hint = (PlainLabel() for _ in range(4))
        self.bars = TokenBars()
        self.switch, self.all_on = QPushButton(), QPushButton("All heads on")
        self.switch.clicked.connect(self.switched)
        self.all_on.clicked.connect(self.allOn)
        inner = QWidget()
        column = column_layout(inner, (12, 8, 8, 8), spacing=8)
        for label in (self.message, self.key, self.off, self.hint):
            label.setWordWrap(True)
        for label in (self.key, self.hint):
            label.setProperty("role", "quiet")
        for part in (self.message, self.switch, self.all_on, self.off, self.key, self.bars):
            column.addWidget(part)
        column.addWidget(self.hint)
        column.addStretch(1)
        self.setWidget(inner)
        self._shown: tuple[NextTokenPanel, Theme] | None = None

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(NEXT_TOKEN)
        if self._shown == (panel, theme):
            return
        self._shown = (panel, theme)
        self.message.setText(panel.message)
        self.message.setVisible(bool(panel.message))
        self.key.setText("Bars: now. Thin lines and grey numbers: with all heads on.")
        self.key.setVisible(bool(panel.rows and panel.heads_off))
        self.bars.show_rows(panel, theme)
        self.off.setText(f"Off: {heads_in_words(panel.heads_off)}.")
        self.off.setVisible(bool(panel.heads_off))
        self.switch.setText(panel.switch)
        self.switch.setVisible(bool(panel.switch))
        self.all_on.setVisible(bool(panel.heads_off))
        self.hint.setText(panel.hint)
        self.hint.setVisible(bool(panel.hint))


class TokenBars(QWidget):
    """A bar for the probability of each token, with a thin line for that with all heads."""

    ACCESSIBLE_ROLE = QAccessible.Role.Table

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Probabilities of the next token")
        self._panel, self._theme = NextTokenPanel(), LIGHT

    @property
    def rows(self) -> tuple[NextToken, ...]:
        """What is shown, from top to bottom."""
        return self._panel.rows

    def show_rows(self, panel: NextTokenPanel, theme: Theme) -> None:
        """Show the rows of a panel."""
        self._panel, self._theme = panel, theme
        set_accessible_value(self, panel.in_words)
        self.setVisible(bool(panel.rows))
        self.setFixedHeight(max(1, len(panel.rows) * self._line))
        self.update()

    @property
    def _line(self) -> int:
        return round(LINE * text_scale())

    def sizeHint(self) -> QSize:
        return QSize(round(WIDTH * text_scale()), len(self._panel.rows) * self._line)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, written = QPainter(self), font(12)
        painter.setFont(written)
        metrics = QFontMetricsF(written)
        name_width = min(0.3 * self.width(), 110 * text_scale())
        share_width = widest_share(metrics) + 4
        columns = 2 if self._panel.heads_off else 1
        room = max(1.0, self.width() - name_width - columns * share_width)
        for at, row in enumerate(self._panel.rows):
            top, line = at * self._line, self._line
            self._paint_name(painter, metrics, row.token, QRectF(0, top, name_width - 6, line))
            bar = QRectF(name_width, top + 0.2 * line, room * row.probability, 0.6 * line)
            painter.fillRect(bar, QColor(self._theme.accent))
            painter.setPen(QColor(self._theme.ink))
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            place = QRectF(self.width() - columns * share_width, top, share_width, line)
            painter.drawText(place, flags, short_share(row.probability))
            if self._panel.heads_off:
                self._paint_before(painter, row, place.translated(share_width, 0), name_width, room)

    def _paint_name(
        self, painter: QPainter, metrics: QFontMetricsF, token: str, place: QRectF
    ) -> None:
        inner = token.strip(" ")
        if not inner:
            words = BLANK * max(1, len(token))
        else:
            words = BLANK * (len(token) - len(token.lstrip(" "))) + token.lstrip(" ")
        words = words.replace("\n", "⏎")
        painter.setPen(QColor(self._theme.ink))
        short = metrics.elidedText(words, Qt.TextElideMode.ElideRight, place.width())
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(place, flags, short)

    def _paint_before(
        self, painter: QPainter, row: NextToken, place: QRectF, left: float, room: float
    ) -> None:
        quiet = QColor(self._theme.quiet)
        painter.setPen(QPen(quiet, 2))
        at = left + room * row.probability_of_all_heads
        painter.drawLine(round(at), round(place.top() + 3), round(at), round(place.bottom() - 3))
        painter.setPen(quiet)
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(place, flags, short_share(row.probability_of_all_heads))


def short_share(share: float) -> str:
    """Return a share as a percentage that is narrow."""
    return format_share(share).replace("less than", "<").replace("more than", ">")


def widest_share(metrics: QFontMetricsF) -> float:
    """Return the width of the widest share: one almost 1, almost 0, with a decimal, or whole."""
    return max(metrics.horizontalAdvance(short_share(share)) for share in WIDEST)
