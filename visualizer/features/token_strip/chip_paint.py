"""Painting of one token chip: the fill shows its weight, the frame whether it is current."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QPainter, QPen

from visualizer.heatmap import value_to_colour_mapping
from visualizer.number_format import format_short
from visualizer.widgets.chip_scroll_area import CENTRE, NUMBER_SIZE, ROUND, chip_height
from visualizer.widgets.fonts import font, metrics, text_scale

if TYPE_CHECKING:
    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.widgets.theme import Theme


def chip_widths(labels: tuple[str, ...], has_number: bool) -> list[float]:
    """The widths of chips; each distinct word is measured once, as a text has many tokens."""
    least = metrics(NUMBER_SIZE).horizontalAdvance("−0.00") if has_number else 0
    measures, margin = metrics(12), 12 * text_scale()
    found = {label: max(measures.horizontalAdvance(label), least) for label in set(labels)}
    return [found[label] + margin for label in labels]


def paint_chip(
    painter: QPainter, box: QRectF, tokens: TokenPanel, token: int, theme: Theme, is_focused: bool
) -> None:
    """Paint a token's chip."""
    is_query, is_key = token == tokens.query, token == tokens.key
    weights, is_subject = tokens.weights, token in tokens.subjects
    is_filled = is_query and weights is None
    fill, ink = theme.accent if is_filled else theme.raised, theme.ink
    if is_filled:
        ink = theme.on_accent
    elif weights and weights.forbidden[token]:
        fill, ink = theme.paper, theme.quiet
    elif weights:
        fill, ink = _colour(weights, token, theme)
    inner = box.adjusted(0.75, 0.75, -0.75, -0.75)
    painter.setPen(QPen(QColor(theme.hairline), 1))
    painter.setBrush(QColor(fill))
    painter.drawRoundedRect(inner, ROUND, ROUND)
    if weights and weights.forbidden[token]:
        painter.setBrush(QBrush(QColor(theme.hatch), Qt.BrushStyle.BDiagPattern))
        painter.drawRoundedRect(inner, ROUND, ROUND)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if token in tokens.special:
        painter.setPen(QPen(QColor(theme.quiet), 1, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(inner, ROUND, ROUND)
    if is_subject:
        _frame(painter, inner, 2.5, theme)
    elif is_key or is_query:
        _frame(painter, inner, 1.5, theme)
    if is_focused:
        painter.setPen(QPen(QColor(theme.ink), 1, Qt.PenStyle.DotLine))
        painter.drawRoundedRect(box.adjusted(-1.5, -1.5, 1.5, 1.5), ROUND + 2, ROUND + 2)
    weight = QFont.Weight.DemiBold if is_subject or is_query or is_key else QFont.Weight.Normal
    _write(painter, box, tokens, token, ink, weight)


def _frame(painter: QPainter, box: QRectF, width: float, theme: Theme) -> None:
    """Paint a chip's frame, visible on every colour: in the accent, outlined in paper."""
    for ink, thickness in ink_of_frame(width, theme):
        painter.setPen(QPen(QColor(ink), thickness))
        painter.drawRoundedRect(box, ROUND, ROUND)


def ink_of_frame(width: float, theme: Theme) -> tuple[tuple[str, float], ...]:
    """The colours and widths of a frame's strokes, from the outer one to the inner one."""
    return (theme.paper, width + 2), (theme.accent, width)


def position_on_scale(values: np.ndarray, weights: TokenWeights) -> np.ndarray:
    """Return the entries of the colour map for weights, uint8 of the same sizes."""
    place = np.clip((values - weights.low) / (weights.high - weights.low), 0, 1)
    entries = np.nan_to_num(place * value_to_colour_mapping.LARGEST).round()
    whole = np.where(np.isnan(values), value_to_colour_mapping.NOT_A_NUMBER, entries)
    return whole.astype(np.uint8)


def _colour(weights: TokenWeights, token: int, theme: Theme) -> tuple[str, str]:
    """The colour of a token's weight, and a readable ink on it."""
    entry = position_on_scale(np.array(weights.values[token]), weights).item()
    fill = QColor(int(value_to_colour_mapping.table(weights.map, theme)[entry])).name()
    is_light = value_to_colour_mapping.light_entries(weights.map, theme)[entry]
    return fill, "#000000" if is_light else "#FFFFFF"


def _write(
    painter: QPainter, box: QRectF, tokens: TokenPanel, token: int, ink: str, weight: QFont.Weight
) -> None:
    label = tokens.labels[token]
    line, has_number = metrics(12).height(), box.height() > chip_height(False) + 1
    words = metrics(12).elidedText(
        label, Qt.TextElideMode.ElideRight, box.width() - 8 * text_scale()
    )
    painter.setFont(font(12, weight))
    painter.setPen(QColor(ink))
    if tokens.weights is None or not has_number:
        painter.drawText(box, CENTRE, words)
        return
    top = box.top() + 2 * text_scale()
    painter.drawText(QRectF(box.left(), top, box.width(), line), CENTRE, words)
    if not tokens.weights.forbidden[token]:
        painter.setFont(font(NUMBER_SIZE))
        below = QRectF(box.left(), top + line - 2, box.width(), metrics(NUMBER_SIZE).height())
        painter.drawText(below, CENTRE, format_short(tokens.weights.values[token]))
