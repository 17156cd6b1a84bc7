"""Token strip of an image: its patches, overlaid with their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Signal
from PySide6.QtGui import QMouseEvent, QPainter

from visualizer.features.token_strip.chip_paint import paint_chip
from visualizer.features.token_strip.chip_strip_widget import TokenStrip
from visualizer.features.token_strip.patch_paint import PatchPictures, paint_patches
from visualizer.widgets.chip_scroll_area import GAP
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent

    from visualizer.features.token_strip.presenter import TokenPanel
    from visualizer.widgets.theme import Theme

MAX_SIDE_PX = 560
"""Maximum side length of an image, in pixels at the default text size."""


class PatchStrip(TokenStrip):
    """An image with selectable patches; other tokens are chips above it.

    `hovered` is emitted with the token under the pointer, or None.
    """

    hovered = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._pictures: PatchPictures | None = None
        self._pointed: int | None = None
        self.viewport().setMouseTracking(True)

    def show_tokens(self, tokens: TokenPanel, theme: Theme) -> None:
        patches = tokens.patches
        known = self._pictures.patches if self._pictures else None
        if patches is not known:
            self._pictures = PatchPictures(patches) if patches else None
            self._pointed = None
        is_same_layout = self._tokens.labels == tokens.labels
        super().show_tokens(tokens, theme)
        if is_same_layout and patches is not known:
            self._lay_out()

    # ------------------------------------------------------------------ layout

    def sizeHint(self) -> QSize:
        below = self._chips[-1].bottom() if self._chips else 0.0
        return QSize(100, round(below + GAP * text_scale() / 2))

    def _lay_out(self) -> None:
        """Lay out other tokens as chips, and the patches as large as the width allows."""
        if self._pictures is None:
            return
        patches, width = self._pictures.patches, self.maximumViewportSize().width() - 2.0
        self.verticalScrollBar().setRange(0, 0)
        labels = self._tokens.labels[: patches.first]
        self._flow(self._label_widths.chips(labels, self._has_numbers), self._chip_height, width)
        gap = GAP * text_scale()
        top = round(self._chips[-1].bottom() + gap) if self._chips else round(gap / 2)
        most = min(width, MAX_SIDE_PX * text_scale())
        scale = min(most / patches.width, MAX_SIDE_PX * text_scale() / patches.height)
        wide, high = (
            patches.width * scale / patches.columns,
            patches.height * scale / patches.rows,
        )
        self._chips = [
            *self._chips,
            *(
                QRectF(1 + column * wide, top + row * high, wide, high)
                for row in range(patches.rows)
                for column in range(patches.columns)
            ),
        ]
        self.updateGeometry()
        self.viewport().update()

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        pictures = self._pictures
        if pictures is None or len(self._chips) != pictures.patches.tokens:
            return
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        focused = self._at if self.hasFocus() else None
        for token in range(pictures.patches.first):
            paint_chip(
                painter, self._chips[token], self._tokens, token, self._theme, token == focused
            )
        paint_patches(painter, self._chips, pictures, self._tokens, self._theme, focused)
        painter.end()

    # ------------------------------------------------------------------ mouse and keys

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self._set_pointed(self._chip_at(event.position()))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._set_pointed(None)
        return super().viewportEvent(event)

    def _chip_at(self, point: QPointF) -> int | None:
        return next((at for at, box in enumerate(self._chips) if box.contains(point)), None)

    def _set_pointed(self, token: int | None) -> None:
        if token != self._pointed:
            self._pointed = token
            self.hovered.emit(token)

    def _token_in_adjacent_line(self, lines: int) -> int:
        """Return the patch above or below; above the first row, the last chip."""
        if self._pictures is None:
            return self._at
        patches = self._pictures.patches
        if self._at < patches.first:
            return patches.first if lines > 0 else self._at
        there = self._at + lines * patches.columns
        if there < patches.first:
            return max(0, patches.first - 1)
        return there if there < patches.tokens else self._at
