"""Drawing the line view: many lines fast, the lit ones above them, tokens at both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen

from visualizer.state.lines.look import Side
from visualizer.state.words import number
from visualizer.ui.captions import LEFT, RIGHT
from visualizer.ui.linerows import GAP, HEAD, MARGIN
from visualizer.ui.theme import font, head_colour, metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.state.lines.choosing import Lines
    from visualizer.state.lines.panel import LinePanel
    from visualizer.ui.linerows import Rows
    from visualizer.ui.theme import Theme

LEVELS = 7
FEW = 60
WIDE_OF_MANY, WIDE_COSTS = 4, 8
"""Wider lines than one pixel take longer by far: of many, only so many of the strongest are."""
MOST_AT_ONCE = 10_000
"""Longer paths are cut in parts, which can be drawn in different frames."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """Lines of one colour and strength, as one path.

    Parameters
    ----------
    cost : float
        How long it takes to draw, as so many pixels of a thin line.
    """

    path: QPainterPath
    pen: QPen
    cost: float


@dataclass(frozen=True, slots=True)
class Brush:
    """How lines are drawn, from the weakest to the strongest.

    Of few, small weights are to be told from none; of many, large ones are to stand out.
    """

    faintest: float
    strongest: float
    gamma: float
    widest: float

    @classmethod
    def of(cls, count: int) -> Brush:
        """Choose it for so many lines."""
        share = min(1.0, FEW / max(1, count))
        return cls(
            faintest=0.03 + 0.06 * share,
            strongest=0.92 * max(0.4, share**0.25),
            gamma=0.7 + 1.3 * (1 - share),
            widest=1 + 2.5 * share**0.5,
        )

    def pen(self, head: int, level: int, is_wide: bool, is_negative: bool, theme: Theme) -> QPen:
        """Give the pen of a head's lines of one of `LEVELS`."""
        strength, colour = level / (LEVELS - 1), QColor(head_colour(head, theme))
        colour.setAlphaF(self.faintest + (self.strongest - self.faintest) * strength)
        pen = QPen(colour, 1 + (self.widest - 1) * strength if is_wide else 1)
        pen.setCosmetic(not is_wide)  # one pixel of the screen, whichever
        if is_negative:
            pen.setDashPattern([6, 3])
        return pen


def paint_lines(
    painter: QPainter, lines: Lines, rows: Rows, seen: tuple[float, float], theme: Theme
) -> None:
    """Draw lines at once."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for stroke in strokes(lines, rows, seen, theme):
        painter.strokePath(stroke.path, stroke.pen)


def strokes(lines: Lines, rows: Rows, seen: tuple[float, float], theme: Theme) -> Iterator[Stroke]:
    """Give what is to be drawn of lines between two heights, the strongest last."""
    begins, ends = (rows.ends(lines.heads, side) for side in (lines.queries, lines.keys))
    inside = (np.maximum(begins, ends) >= seen[0]) & (np.minimum(begins, ends) <= seen[1])
    brush = Brush.of(len(lines))
    levels = (lines.strengths**brush.gamma * (LEVELS - 1)).round().astype(int)
    are_few = len(lines) <= FEW and rows.count <= FEW
    kinds = np.stack([_strongest(lines.strengths, are_few), levels, lines.heads, lines.weights < 0])
    for kind in np.unique(kinds[:, inside], axis=1).T:
        at = np.nonzero(inside & (kinds == kind[:, None]).all(axis=0))[0]
        is_wide, level, head, is_negative = kind.tolist()
        pen = brush.pen(head, level, bool(is_wide), bool(is_negative), theme)
        costs = rows.right - rows.left + np.abs(ends[at] - begins[at])
        costs *= WIDE_COSTS if is_wide else 1
        parts = np.cumsum(costs) // MOST_AT_ONCE
        for part in np.unique(parts):
            some = at[parts == part]
            cost = float(costs[parts == part].sum())
            yield Stroke(_path(rows, begins[some], ends[some]), pen, cost)


def _strongest(strengths: np.ndarray, are_few: bool) -> np.ndarray:
    if are_few:
        return np.ones(len(strengths), dtype=bool)
    wide = np.zeros(len(strengths), dtype=bool)
    wide[np.argsort(strengths, kind="stable")[-WIDE_OF_MANY:]] = True
    return wide


def _path(rows: Rows, begins: np.ndarray, ends: np.ndarray) -> QPainterPath:
    path, middle = QPainterPath(), (rows.left + rows.right) / 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        path.moveTo(rows.left, begin)
        path.cubicTo(middle, begin, middle, end, rows.right, end)
    return path


def paint_cell(painter: QPainter, panel: LinePanel, rows: Rows, theme: Theme) -> None:
    """Draw the line of the lit cell above all others, edged with paper, and its number."""
    if panel.cell is None or panel.weight is None:
        return
    head, query, key = panel.cell.place
    begin, end = (float(rows.ends(head, at)) for at in (query, key))
    path = _path(rows, np.array([begin]), np.array([end]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for colour, width in ((theme.paper, 6.0), (head_colour(head, theme), 3.0)):
        painter.strokePath(path, QPen(QColor(colour), width))
    painter.setFont(font(12, QFont.Weight.DemiBold))
    text = number(panel.weight)
    box = QRectF(0, 0, metrics(12).horizontalAdvance(text) + 18, metrics(12).height() + 4)
    box.moveCenter(QPointF((rows.left + rows.right) / 2, (begin + end) / 2))
    painter.setPen(QPen(QColor(head_colour(head, theme)), 1.5))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(box, 4, 4)
    painter.setPen(QColor(theme.ink))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def label_box(rows: Rows, side: Side, at: int) -> QRectF:
    """Give the place of a token's label."""
    height = max(rows.height, metrics(12).height())
    top = rows.middle(at) - height / 2
    left = MARGIN if side is Side.QUERY else rows.right + GAP
    return QRectF(left, top, rows.left - GAP - MARGIN, height)


def paint_labels(
    painter: QPainter, panel: LinePanel, rows: Rows, seen: tuple[float, float], theme: Theme
) -> None:
    """Write the tokens at both sides: all of them or evenly fewer, those that are lit above."""
    line = metrics(12).height()
    step = max(1, math.ceil(line / rows.height - 0.25))
    first = max(0, rows.at(max(seen[0] - line, rows.top)) or 0) // step * step
    for side, lit in ((Side.QUERY, panel.query), (Side.KEY, panel.key)):
        painter.setFont(font(12))
        painter.setPen(QColor(theme.ink))
        for at in range(first, rows.count, step):
            if rows.middle(at) > seen[1] + line:
                break
            if lit is None or abs(at - lit) >= step:  # else it would touch the lit one
                _write(painter, panel.labels[at], label_box(rows, side, at), side)
        if lit is not None and lit < rows.count:
            painter.setFont(font(12, QFont.Weight.DemiBold))
            painter.setPen(QColor(theme.accent))
            _write(painter, panel.labels[lit], label_box(rows, side, lit), side)


def _write(painter: QPainter, label: str, box: QRectF, side: Side) -> None:
    """Write a token by itself, so that no neighbour turns its direction."""
    words = painter.fontMetrics().elidedText(label, Qt.TextElideMode.ElideRight, int(box.width()))
    towards = RIGHT if side is Side.QUERY else LEFT
    painter.drawText(box, towards | Qt.AlignmentFlag.AlignAbsolute, words)


def paint_head(painter: QPainter, rows: Rows, theme: Theme) -> None:
    """Say which side is which, over both."""
    band = QRectF(0, 0, rows.left + rows.right, HEAD * text_scale())
    painter.fillRect(band, QColor(theme.paper))
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    line = band.adjusted(0, 0, 0, -4 * text_scale())
    painter.drawText(QRectF(0, line.top(), rows.left - GAP, line.height()), RIGHT, "query")
    painter.drawText(line.adjusted(rows.right + GAP, 0, 0, 0), LEFT, "key")
