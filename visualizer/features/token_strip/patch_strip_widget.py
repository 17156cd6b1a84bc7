"""The strip of an image: its patches, with their weights painted over the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QMouseEvent, QPainter, QPen

from visualizer.features.token_strip.chip_paint import (
    MAX_NUMBERED_TOKENS,
    frame_strokes,
    paint_chip,
    weight_colour_indices,
)
from visualizer.features.token_strip.chip_strip_widget import TokenStrip
from visualizer.format import format_two_decimals
from visualizer.heatmap import colour_mapping
from visualizer.widgets.chip_area import ALIGN_CENTRE, CHIP_GAP_PX, NUMBER_SIZE_PX
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QPaintEvent

    from visualizer.attention.captured_attention import ImagePatches
    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.widgets.theme import Theme

MIN_OPACITY, MAX_OPACITY = 0.3, 0.9
"""Opacities, over the grey image, of the colours for the smallest and largest weights."""
MIN_NUMBERED_OPACITY = 0.75
"""Opacity of the colour for the smallest weight if numbers are shown in the patches."""
GRID_OPACITY = 0.35
"""Opacity of the lines between patches."""
MIN_OUTLINED_PATCH_PX = 12
"""Minimum width of a patch, in pixels, for which grid lines are drawn."""


class PatchStripImage:
    """The input image of a model in colour and in greyscale, converted for painting."""

    def __init__(self, patches: ImagePatches) -> None:
        self.patches = patches
        self.colours = QImage(
            patches.pixels,
            patches.width,
            patches.height,
            3 * patches.width,
            QImage.Format.Format_RGB888,
        ).copy()
        self.greyscale = self.colours.convertToFormat(QImage.Format.Format_Grayscale8)


def paint_patches(
    painter: QPainter,
    boxes: Sequence[QRectF],
    pictures: PatchStripImage,
    tokens: TokenPanel,
    theme: Theme,
    focused: int | None,
) -> None:
    """Paint an image, the weights of its patches, and frames around the current patches.

    Parameters
    ----------
    boxes : sequence of QRectF
        Rectangles of all tokens, including those before the first patch.
    focused : int or None
        The token with the keyboard focus.
    """
    first, weights = pictures.patches.first, tokens.weights
    whole = boxes[first].united(boxes[-1])
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.drawImage(whole, pictures.greyscale if weights else pictures.colours)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, on=False)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
    if weights:
        least = MIN_NUMBERED_OPACITY if _has_numbers(boxes, pictures.patches) else MIN_OPACITY
        painter.drawImage(whole, _render_overlay(weights, pictures.patches, least, theme))
        for box, is_forbidden in zip(boxes[first:], weights.forbidden[first:], strict=True):
            if is_forbidden:
                painter.fillRect(box, QColor(theme.mask))
    if boxes[first].width() >= MIN_OUTLINED_PATCH_PX:
        _paint_grid(painter, whole, pictures.patches, theme)
    if weights and _has_numbers(boxes, pictures.patches):
        _paint_numbers(painter, boxes, weights, pictures.patches, theme)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_frames(painter, boxes, tokens, first, theme)
    if focused is not None and focused >= first:
        painter.setPen(QPen(QColor(theme.ink), 1, Qt.PenStyle.DotLine))
        painter.drawRect(boxes[focused].adjusted(2, 2, -2, -2))


def _render_overlay(
    weights: TokenWeights, patches: ImagePatches, least: float, theme: Theme
) -> QImage:
    """Return the colours of the weights, one pixel per patch; larger weights are more opaque."""
    values = weights.values[patches.first :].reshape(patches.rows, patches.columns)
    place = np.clip((values - weights.low) / (weights.high - weights.low), 0, 1)
    size = np.nan_to_num(abs(2 * place - 1) if weights.low < 0 else place, nan=1.0)
    colours = colour_mapping.colour_table(weights.map, theme)[
        weight_colour_indices(values, weights)
    ]
    opacity = (255 * (least + (MAX_OPACITY - least) * size)).round().astype(np.uint32)
    words = np.ascontiguousarray(colours & 0xFFFFFF | opacity << 24, dtype=np.uint32)
    made = QImage(
        words.data, patches.columns, patches.rows, 4 * patches.columns, QImage.Format.Format_ARGB32
    )
    return made.copy()  # the buffer is freed when this function returns


def _paint_grid(painter: QPainter, whole: QRectF, patches: ImagePatches, theme: Theme) -> None:
    painter.setOpacity(GRID_OPACITY)
    painter.setPen(QPen(QColor(theme.paper), 1))
    for column in range(1, patches.columns):
        across = whole.left() + whole.width() * column / patches.columns
        painter.drawLine(QPointF(across, whole.top()), QPointF(across, whole.bottom()))
    for row in range(1, patches.rows):
        down = whole.top() + whole.height() * row / patches.rows
        painter.drawLine(QPointF(whole.left(), down), QPointF(whole.right(), down))
    painter.setOpacity(1)


def _has_numbers(boxes: Sequence[QRectF], patches: ImagePatches) -> bool:
    """Return whether the patches are few enough and large enough to show numbers."""
    box, room = boxes[patches.first], font_metrics(NUMBER_SIZE_PX).horizontalAdvance("−0.00") + 4
    return (
        patches.token_count <= MAX_NUMBERED_TOKENS
        and box.width() >= room
        and box.height() >= font_metrics(12).height()
    )


def _paint_numbers(
    painter: QPainter,
    boxes: Sequence[QRectF],
    weights: TokenWeights,
    patches: ImagePatches,
    theme: Theme,
) -> None:
    light = colour_mapping.dark_text_mask(weights.map, theme)
    entries = weight_colour_indices(weights.values, weights)
    painter.setFont(scaled_font(NUMBER_SIZE_PX))
    for token in range(patches.first, patches.token_count):
        if not weights.forbidden[token]:
            painter.setPen(QColor("#000000" if light[entries[token]] else "#FFFFFF"))
            painter.drawText(boxes[token], ALIGN_CENTRE, format_two_decimals(weights.values[token]))


def _paint_frames(
    painter: QPainter, boxes: Sequence[QRectF], tokens: TokenPanel, first: int, theme: Theme
) -> None:
    """Paint thick frames around the subjects, and thin frames around the cursor's other tokens."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    thin = {tokens.query, tokens.key} - tokens.subjects - {None}
    for width, places in ((1.5, thin), (2.5, tokens.subjects)):
        for token in places:
            if token is not None and first <= token < len(boxes):
                for ink, thickness in frame_strokes(width, theme):
                    painter.setPen(QPen(QColor(ink), thickness))
                    painter.drawRect(boxes[token])


MAX_SIDE_PX = 560
"""Maximum side length of an image, in pixels at the default text size."""


class PatchStrip(TokenStrip):
    """An image with selectable patches; other tokens are chips above it.

    `hovered` is emitted with the token under the pointer, or None.
    """

    hovered = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._pictures: PatchStripImage | None = None
        self._pointed: int | None = None
        self.viewport().setMouseTracking(True)

    def show_tokens(self, tokens: TokenPanel, theme: Theme) -> None:
        patches = tokens.patches
        known = self._pictures.patches if self._pictures else None
        if patches is not known:
            self._pictures = PatchStripImage(patches) if patches else None
            self._pointed = None
        is_same_layout = self.tokens.labels == tokens.labels
        super().show_tokens(tokens, theme)
        if is_same_layout and patches is not known:
            self._lay_out()

    # ------------------------------------------------------------------ layout

    def sizeHint(self) -> QSize:
        below = self.chips[-1].bottom() if self.chips else 0.0
        return QSize(100, round(below + CHIP_GAP_PX * text_scale() / 2))

    def _lay_out(self) -> None:
        """Lay out the other tokens as chips, and make the patches as large as the width allows."""
        if self._pictures is None:
            return
        patches, width = self._pictures.patches, self.maximumViewportSize().width() - 2.0
        self.verticalScrollBar().setRange(0, 0)
        labels = self.tokens.labels[: patches.first]
        self._lay_out_chips(
            self._label_widths.chip_widths(labels, self._has_numbers), self._chip_height, width
        )
        gap = CHIP_GAP_PX * text_scale()
        top = round(self.chips[-1].bottom() + gap) if self.chips else round(gap / 2)
        most = min(width, MAX_SIDE_PX * text_scale())
        scale = min(most / patches.width, MAX_SIDE_PX * text_scale() / patches.height)
        wide, high = (
            patches.width * scale / patches.columns,
            patches.height * scale / patches.rows,
        )
        self.chips = [
            *self.chips,
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
        if pictures is None or len(self.chips) != pictures.patches.token_count:
            return
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        focused = self._at if self.hasFocus() else None
        for token in range(pictures.patches.first):
            paint_chip(
                painter, self.chips[token], self.tokens, token, self._theme, token == focused
            )
        paint_patches(painter, self.chips, pictures, self.tokens, self._theme, focused)
        painter.end()

    # ------------------------------------------------------------------ mouse and keys

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self._set_hovered_token(self._chip_at(event.position()))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._set_hovered_token(None)
        return super().viewportEvent(event)

    def _chip_at(self, point: QPointF) -> int | None:
        return next((at for at, box in enumerate(self.chips) if box.contains(point)), None)

    def _set_hovered_token(self, token: int | None) -> None:
        if token != self._pointed:
            self._pointed = token
            self.hovered.emit(token)

    def _token_in_adjacent_line(self, lines: int) -> int:
        """Return the patch above or below the current one, or the last chip above all patches."""
        if self._pictures is None:
            return self._at
        patches = self._pictures.patches
        if self._at < patches.first:
            return patches.first if lines > 0 else self._at
        there = self._at + lines * patches.columns
        if there < patches.first:
            return max(0, patches.first - 1)
        return there if there < patches.token_count else self._at
