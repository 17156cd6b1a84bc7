"""The sentence as a strip of tokens: what the module reads, and whom the cursor is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.state.screen import Tokens
from visualizer.state.words import counted
from visualizer.ui.accessible import tell
from visualizer.ui.theme import LIGHT, Theme, font, metrics, text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent, QResizeEvent

LINES = 4


class TokenStrip(QWidget):
    """Chips that flow over a few lines; the query is filled and the key is outlined."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._tokens = Tokens()
        self._theme = LIGHT
        self._chips: list[tuple[int, QRectF]] = []

    def show_tokens(self, tokens: Tokens, theme: Theme) -> None:
        """Show a text's tokens."""
        if tokens == self._tokens and theme is self._theme:
            return
        is_new = tokens.labels != self._tokens.labels
        self._tokens, self._theme = tokens, theme
        if is_new:
            self._arrange()
        count = counted(len(tokens.labels), "token")
        self.setAccessibleName(f"Tokens: {count}, {' '.join(tokens.labels[:100])}")
        tell(self, _lit(tokens))
        self.update()

    def sizeHint(self) -> QSize:
        bottom = max((box.bottom() for _, box in self._chips), default=0)
        return QSize(100, round(bottom + 20 * text_scale()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()

    def _arrange(self) -> None:
        measures, scale = metrics(12), text_scale()
        self._chips = []
        left, top, height = 0.0, 0.0, measures.height() + 6 * scale
        for position, label in enumerate(self._tokens.labels):
            text = self._text(label)
            width = min(measures.horizontalAdvance(text) + 12 * scale, self.width())
            if left and left + width > self.width():
                left, top = 0.0, top + height + 4 * scale
            if top > (LINES - 1) * (height + 4 * scale) + 1:
                break
            self._chips.append((position, QRectF(left, top, width, height)))
            left += width + 4 * scale
        self.updateGeometry()

    def _text(self, label: str) -> str:
        room = max(20.0, self.width() - 14 * text_scale())
        return metrics(12).elidedText(label, Qt.TextElideMode.ElideRight, room)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for position, box in self._chips:
            self._paint_chip(painter, position, box)
        painter.setFont(font(12))
        painter.setPen(QColor(self._theme.quiet))
        bottom = max((box.bottom() for _, box in self._chips), default=0) + 2
        line = QRectF(0, bottom, self.width(), 18 * text_scale())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, self._counted())
        painter.end()

    def _counted(self) -> str:
        tokens = self._tokens
        if not tokens.labels:
            return ""
        hidden = len(tokens.labels) - len(self._chips)
        more = f", the first {len(self._chips)} shown" if hidden else ""
        if tokens.padding:
            more = f", padded to {len(tokens.labels):,}{more}"
        return f"{counted(len(tokens.labels) - tokens.padding, 'token')}{more}"

    def _paint_chip(self, painter: QPainter, position: int, box: QRectF) -> None:
        theme, tokens = self._theme, self._tokens
        is_query, is_key = position == tokens.query, position == tokens.key
        inner = box.adjusted(0.75, 0.75, -0.75, -0.75)
        painter.setPen(
            QPen(QColor(theme.accent if is_key else theme.hairline), 1.5 if is_key else 1)
        )
        painter.setBrush(QColor(theme.accent if is_query else theme.raised))
        painter.drawRoundedRect(inner, 4, 4)
        weight = QFont.Weight.DemiBold if is_query or is_key else QFont.Weight.Normal
        painter.setFont(font(12, weight))
        painter.setPen(QColor(theme.on_accent if is_query else theme.ink))
        text = self._text(tokens.labels[position])
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def _lit(tokens: Tokens) -> str:
    """Say which tokens the cursor is on."""
    places = (("query", tokens.query), ("key", tokens.key))
    return ", ".join(f"{name} {tokens.labels[at]}" for name, at in places if at is not None)
