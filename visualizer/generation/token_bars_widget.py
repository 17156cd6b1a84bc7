"""Bars for a model's next-token probabilities, with and without the model's edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QWidget

from visualizer.generation.token_choice_presenter import (
    describe_next_tokens,
    format_short_percentage,
)
from visualizer.language.tokenizers import visible_token
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.attention.model_forward_pass import NextTokenCandidate

RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
BARS_WIDTH_PX = 252
ROW_HEIGHT_PX = 22
"""Height of a row, in pixels at the default text size."""
WIDEST_SHARES = (0.9999, 0.0001, 0.996, 1.0)
"""Probabilities with the widest percentages: almost 1, almost 0, one with a decimal, and 1."""


class NextTokenProbabilityBars(QWidget):
    """Bars for the next-token probabilities; thin lines mark the probabilities without edits."""

    ACCESSIBLE_ROLE = QAccessible.Role.Table

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Probabilities of the next token")
        self.rows: tuple[NextTokenCandidate, ...] = ()
        """The rows that are shown, from top to bottom."""
        self._is_edited, self._theme = False, LIGHT

    def show_rows(
        self, rows: tuple[NextTokenCandidate, ...], is_edited: bool, theme: Theme
    ) -> None:
        """Show rows; if the model is edited, also show the probabilities without edits."""
        self.rows, self._is_edited, self._theme = rows, is_edited, theme
        set_accessible_value(self, describe_next_tokens(rows, is_edited))
        self.setVisible(bool(rows))
        self.setFixedHeight(max(1, self._line_count * self._line_height))
        self.update()

    @property
    def _line_count(self) -> int:
        """Number of rows, including one with the names of the columns if the model is edited."""
        return len(self.rows) + self._is_edited

    @property
    def _line_height(self) -> int:
        return round(ROW_HEIGHT_PX * text_scale())

    def sizeHint(self) -> QSize:
        return QSize(round(BARS_WIDTH_PX * text_scale()), self._line_count * self._line_height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, label_font = QPainter(self), scaled_font(12)
        painter.setFont(label_font)
        metrics = QFontMetricsF(label_font)
        name_width = min(0.3 * self.width(), 110 * text_scale())
        share_width = widest_percentage_width(metrics) + 4
        # Also without edits, there is room for two columns, so that the bars keep their scale.
        columns = 2 * share_width
        room = max(1.0, self.width() - name_width - columns)
        if self._is_edited:
            first = QRectF(self.width() - columns, 0, share_width, self._line_height)
            for place, name in ((first, "edited"), (first.translated(share_width, 0), "before")):
                painter.setPen(QColor(self._theme.quiet))
                painter.drawText(place, RIGHT, name)
        for at, row in enumerate(self.rows, int(self._is_edited)):
            top, line = at * self._line_height, self._line_height
            self._paint_token_name(
                painter, metrics, row.token, QRectF(0, top, name_width - 6, line)
            )
            bar = QRectF(name_width, top + 0.2 * line, max(1.0, room * row.probability), 0.6 * line)
            painter.fillRect(bar, QColor(self._theme.ink))
            painter.setPen(QColor(self._theme.ink))
            place = QRectF(self.width() - columns, top, share_width, line)
            painter.drawText(place, RIGHT, format_short_percentage(row.probability))
            if self._is_edited:
                self._paint_unedited_probability(
                    painter, row, place.translated(share_width, 0), name_width, room
                )

    def _paint_token_name(
        self, painter: QPainter, metrics: QFontMetricsF, token: str, place: QRectF
    ) -> None:
        painter.setPen(QColor(self._theme.ink))
        short = metrics.elidedText(visible_token(token), Qt.TextElideMode.ElideRight, place.width())
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(place, flags, short)

    def _paint_unedited_probability(
        self, painter: QPainter, row: NextTokenCandidate, place: QRectF, left: float, room: float
    ) -> None:
        quiet = QColor(self._theme.quiet)
        painter.setPen(QPen(quiet, 2))
        at = left + room * row.probability_of_all_heads
        painter.drawLine(round(at), round(place.top() + 3), round(at), round(place.bottom() - 3))
        painter.setPen(quiet)
        painter.drawText(place, RIGHT, format_short_percentage(row.probability_of_all_heads))


def widest_percentage_width(metrics: QFontMetricsF) -> float:
    """Return the width of the widest percentage in `WIDEST_SHARES`, in pixels."""
    return max(metrics.horizontalAdvance(format_short_percentage(share)) for share in WIDEST_SHARES)
