"""Colour bar of the token strip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.heatmap import value_to_colour_mapping
from visualizer.number_format import format_number
from visualizer.widgets.fonts import font, metrics, text_scale
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.features.token_strip.presenter import TokenWeights
BAR = 48
SPACE = 6
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TokenColourBar(QWidget):
    """Colour bar with its limits; it keeps its size while it is empty."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._weights: TokenWeights | None = None
        self._theme = LIGHT

    def sizeHint(self) -> QSize:
        width = BAR * text_scale() + 2 * (metrics(12).horizontalAdvance("−0.00") + SPACE)
        return QSize(round(width), round(metrics(12).height()) + 2)

    def show_weights(self, weights: TokenWeights | None, theme: Theme) -> None:
        """Show the colour map and limits of weights."""
        if weights != self._weights or theme is not self._theme:
            self._weights, self._theme = weights, theme
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        weights = self._weights
        if weights is None:
            return
        low = format_number(weights.low, 2) if weights.low else "0"
        high = format_number(weights.high, 2)
        left, right = (metrics(12).horizontalAdvance(end) + SPACE for end in (low, high))
        width = max(0.0, self.width() - left - right)
        painter = QPainter(self)
        painter.setFont(font(12))
        painter.setPen(QColor(self._theme.quiet))
        painter.drawText(self.rect(), LEFT, low)
        bar = QRectF(left, self.height() / 2 - 3 * text_scale(), width, 6 * text_scale())
        ramp = np.arange(value_to_colour_mapping.MAX_COLOUR_INDEX + 1, dtype=np.uint8)[None]
        painter.drawImage(bar, value_to_colour_mapping.image(ramp, weights.map, self._theme))
        painter.drawText(self.rect(), RIGHT, high)
        painter.end()
