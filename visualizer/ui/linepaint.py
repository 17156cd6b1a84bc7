"""Drawing the line view: many lines fast, the lit ones above them, tokens at both sides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen

from visualizer.state.lines.look import Side
from visualizer.state.words import number
from visualizer.ui.heatmap import LEFT, RIGHT
from visualizer.ui.linerows import GAP, MARGIN
from visualizer.ui.theme import HEAD_COLOURS, font, metrics, text_scale

if TYPE_CHECKING:
    from visualizer.state.lines.choosing import Lines
    from visualizer.state.lines.panel import LinePanel
    from visualizer.ui.linerows import Rows
    from visualizer.ui.theme import Theme

LEVELS = 10
FAINTEST = 0.07
WIDEST = 3.5
MOST_WIDE = 120
"""Wider lines than one pixel take ten times as long: only so many of the strongest are."""


def head_colour(head: int) -> str:
    """Give a head's colour."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def paint_lines(painter: QPainter, lines: Lines, rows: Rows, seen: tuple[float, float]) -> None:
    """Draw lines between two heights, the strongest last.

    Lines of a colour and a strength are one path.
    """
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    begins, ends = (rows.middle(side) for side in (lines.queries, lines.keys))
    inside = (np.maximum(begins, ends) >= seen[0]) & (np.minimum(begins, ends) <= seen[1])
    levels = (lines.strengths * (LEVELS - 1)).round().astype(int)
    wide = _strongest(lines.strengths)
    for is_wide in (False, True):
        for level in np.unique(levels[inside & (wide == is_wide)]):
            at = inside & (wide == is_wide) & (levels == level)
            for head in np.unique(lines.heads[at]):
                for is_negative in (False, True):
                    chosen = at & (lines.heads == head) & ((lines.weights < 0) == is_negative)
                    path = _path(rows, begins[chosen], ends[chosen])
                    strength = level / (LEVELS - 1)
                    painter.strokePath(path, _pen(int(head), strength, is_wide, is_negative))


def _strongest(strengths: np.ndarray) -> np.ndarray:
    wide = np.zeros(len(strengths), dtype=bool)
    wide[np.argsort(strengths, kind="stable")[-MOST_WIDE:]] = True
    return wide


def _path(rows: Rows, begins: np.ndarray, ends: np.ndarray) -> QPainterPath:
    path, middle = QPainterPath(), (rows.left + rows.right) / 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        path.moveTo(rows.left, begin)
        path.cubicTo(middle, begin, middle, end, rows.right, end)
    return path


def _pen(head: int, strength: float, is_wide: bool, is_negative: bool) -> QPen:
    colour = QColor(head_colour(head))
    colour.setAlphaF(FAINTEST + (0.92 - FAINTEST) * strength)
    pen = QPen(colour, 1 + (WIDEST - 1) * strength if is_wide else 1)
    pen.setCosmetic(not is_wide)  # one pixel of the screen, whichever
    if is_negative:
        pen.setDashPattern([6, 3])
    return pen


def paint_cell(painter: QPainter, panel: LinePanel, rows: Rows, theme: Theme) -> None:
    """Draw the line of the lit cell above all others, edged with paper, and its number."""
    if panel.cell is None or panel.weight is None:
        return
    head, query, key = panel.cell.place
    begin, end = rows.middle(query), rows.middle(key)
    path = _path(rows, np.array([begin]), np.array([end]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for colour, width in ((theme.paper, 6.0), (head_colour(head), 3.0)):
        painter.strokePath(path, QPen(QColor(colour), width))
    painter.setFont(font(12, QFont.Weight.DemiBold))
    text = number(panel.weight)
    box = QRectF(0, 0, metrics(12).horizontalAdvance(text) + 18, metrics(12).height() + 4)
    box.moveCenter(QPointF((rows.left + rows.right) / 2, (begin + end) / 2))
    painter.setPen(QPen(QColor(head_colour(head)), 1.5))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(box, 4, 4)
    painter.setPen(QColor(theme.ink))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def label_box(rows: Rows, side: Side, at: int, width: float) -> QRectF:
    """Give the place of a token's label, in a view of this width."""
    height = max(rows.height, metrics(12).height())
    top = rows.middle(at) - height / 2
    left = MARGIN if side is Side.QUERY else rows.right + GAP
    return QRectF(left, top, rows.left - GAP - MARGIN, height)


def paint_labels(
    painter: QPainter, panel: LinePanel, rows: Rows, seen: tuple[float, float], theme: Theme
) -> None:
    """Write the tokens at both sides: all of them or evenly fewer, those that are lit above."""
    width = rows.left + rows.right
    step = max(1, math.ceil(metrics(12).height() / rows.height - 0.25))
    first = max(0, rows.at(max(seen[0], rows.top)) or 0) // step * step
    painter.setFont(font(12))
    painter.setPen(QColor(theme.ink))
    for at in range(first, rows.count, step):
        if rows.middle(at) > seen[1] + rows.height:
            break
        for side in Side:
            _write(painter, panel.labels[at], label_box(rows, side, at, width), side)
    for side, lit in ((Side.QUERY, panel.query), (Side.KEY, panel.key)):
        if lit is not None and lit < rows.count:
            box = label_box(rows, side, lit, width)
            line = metrics(12).height()
            over = QRectF(box.left(), box.center().y() - line * 0.75, box.width(), line * 1.5)
            painter.fillRect(over if step > 1 else box, QColor(theme.paper))
            painter.setFont(font(12, QFont.Weight.DemiBold))
            painter.setPen(QColor(theme.accent))
            _write(painter, panel.labels[lit], box, side)


def _write(painter: QPainter, label: str, box: QRectF, side: Side) -> None:
    """Write a token by itself, so that no neighbour turns its direction."""
    words = painter.fontMetrics().elidedText(label, Qt.TextElideMode.ElideRight, int(box.width()))
    towards = RIGHT if side is Side.QUERY else LEFT
    painter.drawText(box, towards | Qt.AlignmentFlag.AlignAbsolute, words)


def paint_head(painter: QPainter, panel: LinePanel, rows: Rows, theme: Theme) -> None:
    """Say which side is which, over both."""
    band = QRectF(0, 0, rows.left + rows.right, rows.top)
    painter.fillRect(band, QColor(theme.paper))
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    line = band.adjusted(0, 0, 0, -4 * text_scale())
    painter.drawText(QRectF(0, line.top(), rows.left - GAP, line.height()), RIGHT, "query")
    painter.drawText(line.adjusted(rows.right + GAP, 0, 0, 0), LEFT, "key")
    painter.drawText(line, Qt.AlignmentFlag.AlignCenter, panel.lit_note)
