"""Painting of tokens as chips or words: fills show weights, and frames mark current tokens."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from visualizer.format import format_two_decimals
from visualizer.heatmap import colour_mapping
from visualizer.language.tokenizers import SPACE_SYMBOL
from visualizer.widgets.chip_area import (
    ALIGN_CENTRE,
    CORNER_RADIUS_PX,
    NUMBER_SIZE_PX,
    chip_height,
    draw_chip_text,
)
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QFontMetricsF

    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.widgets.theme import Theme


CHIP_MARGIN_PX, WORD_MARGIN_PX, SPACED_WORD_MARGIN_PX = 12, 6, 2
"""Total horizontal margins of a label, in pixels at the default text size.

They apply to chips, to words, and to words that include the spaces of the text.
"""
MIN_ELIDED_LENGTH = 20
"""Minimum number of characters of a label that may be elided."""
MAX_CACHED_WIDTHS = 50_000
"""Maximum number of cached label widths."""
MAX_NUMBERED_TOKENS = 24
"""Maximum number of tokens for which a number is shown under each token."""


class LabelWidthCache:
    """Cache of label widths; a long text has many tokens, but few distinct labels."""

    def __init__(self) -> None:
        self._found: dict[str, float] = {}
        self._measures: QFontMetricsF | None = None

    def chip_widths(self, labels: Sequence[str], has_number: bool) -> list[float]:
        """Return the width of the chip of each label."""
        least = font_metrics(NUMBER_SIZE_PX).horizontalAdvance("−0.00") if has_number else 0
        found, margin = self._measure_labels(labels), CHIP_MARGIN_PX * text_scale()
        return [max(found[label], least) + margin for label in labels]

    def word_widths(self, labels: Sequence[str], has_own_spaces: bool) -> list[float]:
        """Return the width of each word of running text, in whole pixels because words adjoin."""
        found = self._measure_labels(labels)
        margin = (SPACED_WORD_MARGIN_PX if has_own_spaces else WORD_MARGIN_PX) * text_scale()
        return [float(ceil(found[label] + margin)) for label in labels]

    def _measure_labels(self, labels: Sequence[str]) -> dict[str, float]:
        measures, distinct = font_metrics(12), set(labels)
        if measures is not self._measures or len(self._found) > MAX_CACHED_WIDTHS:
            self._measures = measures
            self._found.clear()
        for label in distinct - self._found.keys():
            self._found[label] = measures.horizontalAdvance(label)
        return self._found


def paint_chip(
    painter: QPainter, box: QRectF, tokens: TokenPanel, token: int, theme: Theme, is_focused: bool
) -> None:
    """Paint a token as a chip."""
    is_query, is_key = token == tokens.query, token == tokens.key
    weights, is_subject = tokens.weights, token in tokens.subjects
    fill, ink = theme.raised, theme.ink
    if is_query and weights is None:
        fill, ink = theme.accent, theme.on_accent
    elif weights and weights.forbidden[token]:
        fill, ink = theme.mask, theme.quiet
    elif weights and token in weights.known:
        fill, ink = _chip_colours(weights, token, theme)
    inner = box.adjusted(0.75, 0.75, -0.75, -0.75)
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(QColor(fill))
    painter.drawRoundedRect(inner, CORNER_RADIUS_PX, CORNER_RADIUS_PX)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if token in tokens.special:
        painter.setPen(QPen(QColor(theme.quiet), 1, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(inner, CORNER_RADIUS_PX, CORNER_RADIUS_PX)
    if is_subject:
        _paint_frame(painter, inner, 2.5, theme)
    elif is_key or is_query:
        _paint_frame(painter, inner, 1.5, theme)
    if is_focused:
        painter.setPen(QPen(QColor(theme.ink), 1, Qt.PenStyle.DotLine))
        painter.drawRoundedRect(
            box.adjusted(-1.5, -1.5, 1.5, 1.5), CORNER_RADIUS_PX + 2, CORNER_RADIUS_PX + 2
        )
    weight = QFont.Weight.DemiBold if is_subject or is_query or is_key else QFont.Weight.Normal
    _draw_label(painter, box, tokens, token, ink, weight)


def word_height() -> float:
    """Return the height of a line of running text."""
    return font_metrics(12).height() + 3 * text_scale()


def paint_words(
    painter: QPainter,
    words: Sequence[tuple[int, QRectF]],
    tokens: TokenPanel,
    theme: Theme,
    focused: int | None,
) -> None:
    """Paint tokens as words of running text on coloured backgrounds.

    Parameters
    ----------
    words : sequence of (token, rectangle)
        The visible tokens.
    focused : int or None
        The token with the keyboard focus.
    """
    inks = _paint_backgrounds(painter, words, tokens, theme)
    painter.setFont(scaled_font(12))
    for (token, box), ink in zip(words, inks, strict=True):
        label = tokens.labels[token]
        if len(label) > MIN_ELIDED_LENGTH:
            mode = Qt.TextElideMode.ElideRight
            label = font_metrics(12).elidedText(label, mode, box.width() - text_scale())
        painter.setPen(QColor(ink))
        painter.drawText(box, ALIGN_CENTRE, _with_plain_spaces(label))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for token, box in words:
        inner = box.adjusted(0.75, 0.75, -0.75, -0.75)
        if token in tokens.subjects or token in {tokens.query, tokens.key}:
            _paint_frame(painter, inner, 2.5 if token in tokens.subjects else 1.5, theme)
        if token == focused:
            painter.setPen(QPen(QColor(theme.ink), 1, Qt.PenStyle.DotLine))
            painter.drawRoundedRect(inner, CORNER_RADIUS_PX, CORNER_RADIUS_PX)


def _paint_backgrounds(
    painter: QPainter, words: Sequence[tuple[int, QRectF]], tokens: TokenPanel, theme: Theme
) -> list[str]:
    """Paint the backgrounds of words and return their text colours."""
    weights = tokens.weights
    if weights is None:
        inks = [theme.ink] * len(words)
        for at, (token, box) in enumerate(words):
            if token == tokens.query:
                painter.fillRect(box, QColor(theme.accent))
                inks[at] = theme.on_accent
        return inks
    inks, table = [], colour_mapping.colour_table(weights.map, theme)
    light = colour_mapping.dark_text_mask(weights.map, theme)
    entries = weight_colour_indices(weights.values[[token for token, _ in words]], weights)
    for (token, box), entry in zip(words, entries.tolist(), strict=True):
        if weights.forbidden[token]:
            painter.fillRect(box, QColor(theme.mask))
            inks.append(theme.quiet)
        elif token not in weights.known:
            inks.append(theme.ink)
        else:
            painter.fillRect(box, QColor(int(table[entry])))
            inks.append("#000000" if light[entry] else "#FFFFFF")
    return inks


def _paint_frame(painter: QPainter, box: QRectF, width: float, theme: Theme) -> None:
    """Paint a frame in the accent colour, with an outline that keeps it visible on any colour."""
    for ink, thickness in frame_strokes(width, theme):
        painter.setPen(QPen(QColor(ink), thickness))
        painter.drawRoundedRect(box, CORNER_RADIUS_PX, CORNER_RADIUS_PX)


def frame_strokes(width: float, theme: Theme) -> tuple[tuple[str, float], ...]:
    """Return the colour and width of each stroke of a frame, the outer stroke first."""
    return (theme.paper, width + 2), (theme.accent, width)


def weight_colour_indices(values: np.ndarray, weights: TokenWeights) -> np.ndarray:
    """Return the colour map index of each weight, as an array of the same shape (uint8)."""
    share = np.clip((values - weights.low) / (weights.high - weights.low), 0, 1)
    entries = np.nan_to_num(share * colour_mapping.MAX_COLOUR_INDEX).round()
    whole = np.where(np.isnan(values), colour_mapping.NAN_COLOUR_INDEX, entries)
    return whole.astype(np.uint8)


def _chip_colours(weights: TokenWeights, token: int, theme: Theme) -> tuple[str, str]:
    """Return the colour of a token's weight, and a text colour that is readable on it."""
    entry = weight_colour_indices(weights.values[token : token + 1], weights).item()
    fill = QColor(int(colour_mapping.colour_table(weights.map, theme)[entry])).name()
    is_light = colour_mapping.dark_text_mask(weights.map, theme)[entry]
    return fill, "#000000" if is_light else "#FFFFFF"


def _with_plain_spaces(label: str) -> str:
    """Return a label with plain spaces instead of leading space symbols, for running text."""
    word = label.lstrip(SPACE_SYMBOL)
    return f"{' ' * (len(label) - len(word))}{word}" if word else label


def _draw_label(
    painter: QPainter, box: QRectF, tokens: TokenPanel, token: int, ink: str, weight: QFont.Weight
) -> None:
    weights, number = tokens.weights, None
    if weights and box.height() > chip_height(False) + 1:
        is_known = not weights.forbidden[token] and token in weights.known
        number = format_two_decimals(weights.values[token]) if is_known else ""
    painter.setPen(QColor(ink))
    draw_chip_text(painter, box, tokens.labels[token], number, weight)
