"""Overview of a long running text: shows where its largest weights are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from visualizer.features.token_strip.chip_paint import position_on_scale
from visualizer.heatmap import value_to_colour_mapping
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.widgets.theme import Theme
    from visualizer.widgets.wrapped_chips import WrappedChips

WIDTH = 12
"""Width of the overview, in pixels at the default text size."""


def overview_width() -> float:
    """Return the width of the overview."""
    return WIDTH * text_scale()


class TextOverview(Struct, frozen=True, eq=False):
    """Weights of all lines of a text, with marks at the selected tokens.

    Parameters
    ----------
    tokens, chips, theme : TokenPanel, WrappedChips, Theme
        The content that was painted.
    lines, rows : int
        Number of lines, and of pixel rows that show them.
    weights : QImage or None
        An image one pixel wide; None without weights.
    marked : tuple of int
        Pixel rows that contain selected tokens.
    """

    tokens: TokenPanel
    chips: WrappedChips
    theme: Theme
    lines: int
    rows: int
    weights: QImage | None
    marked: tuple[int, ...]

    def is_of(self, tokens: TokenPanel, chips: WrappedChips, rows: int, theme: Theme) -> bool:
        """Whether the overview matches the current layout of a text."""
        is_same = self.tokens is tokens and self.chips is chips and self.theme is theme
        return is_same and (self.lines, self.rows) == (chips.lines, rows)

    def paint(self, painter: QPainter, area: QRectF, seen: range) -> None:
        """Paint the overview.

        Parameters
        ----------
        seen : range
            The visible lines, which are framed.
        """
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.fillRect(area, QColor(self.theme.raised))
        if self.weights:
            painter.drawImage(area, self.weights)
        edge = QRectF(area.left(), area.top(), 1, area.height())
        painter.fillRect(edge, QColor(self.theme.hairline))
        for row in self.marked:
            mark = QRectF(area.left(), area.top() + row - 1, area.width() / 2, 3)
            painter.fillRect(mark, QColor(self.theme.accent))
        scale = area.height() / max(1, self.lines)
        top, height = seen.start * scale, max(3.0, len(seen) * scale)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self.theme.ink), 1))
        painter.drawRect(QRectF(area.left(), area.top() + top, area.width() - 1, height))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)


def overview_of(tokens: TokenPanel, chips: WrappedChips, rows: int, theme: Theme) -> TextOverview:
    """Create the overview of a text with at least one line, in a number of pixel rows."""
    weights = _render_weights(tokens.weights, chips, rows, theme) if tokens.weights else None
    lines = chips.lines_of(tokens.subjects)
    marked = np.unique(lines * rows // chips.lines)
    return TextOverview(tokens, chips, theme, chips.lines, rows, weights, tuple(marked.tolist()))


def _render_weights(weights: TokenWeights, chips: WrappedChips, rows: int, theme: Theme) -> QImage:
    """Return a column of pixels, each the weight with the largest magnitude of its lines."""
    values = weights.values[: len(chips)]
    is_hidden = weights.forbidden[: len(chips)] | ~np.isfinite(values)
    is_hidden[weights.known.stop :] = True
    count = min(rows, chips.lines)
    starts = chips.line_starts[np.arange(count) * chips.lines // count]
    shown = np.where(is_hidden, 0, values)
    high, low = np.maximum.reduceat(shown, starts), np.minimum.reduceat(shown, starts)
    entries = position_on_scale(np.where(-low > high, low, high), weights)
    entries[np.logical_and.reduceat(is_hidden, starts)] = value_to_colour_mapping.FORBIDDEN
    return value_to_colour_mapping.image(entries[:, None], weights.map, theme)
