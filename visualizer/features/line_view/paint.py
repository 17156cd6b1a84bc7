"""Drawing the line view: many lines fast, the lit ones above them, tokens at both sides.

The picture of all lines, drawn a part at a time, so that the window never waits for long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen, QPixmap

from visualizer.features.line_view.layout import GAP, HEAD, MARGIN
from visualizer.heatmap.annotation_paint import LEFT, RIGHT
from visualizer.number_format import format_number
from visualizer.session.view_options import LineSide
from visualizer.widgets.theme import font, head_colour, metrics, text_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.features.line_view.layout import LineLayout
    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.features.line_view.model import LinePanel
    from visualizer.widgets.theme import Theme

LEVELS = 7
FEW = 60
WIDE_OF_MANY, WIDE_COSTS = 4, 8
"""Wider lines than one pixel take longer by far: of many, only so many of the strongest are."""
MOST_AT_ONCE = 10_000
"""Longer paths are cut in parts, which can be drawn in different frames."""


@dataclass(frozen=True, slots=True)
class LineStroke:
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
class LineBrush:
    """How lines are drawn, from the weakest to the strongest.

    Of few, small weights are to be told from none; of many, large ones are to stand out.
    """

    faintest: float
    strongest: float
    gamma: float
    widest: float

    @classmethod
    def of(cls, count: int) -> LineBrush:
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
    painter: QPainter,
    lines: SelectedLines,
    rows: LineLayout,
    seen: tuple[float, float],
    theme: Theme,
) -> None:
    """Draw lines at once."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for stroke in strokes(lines, rows, seen, theme):
        painter.strokePath(stroke.path, stroke.pen)


def strokes(
    lines: SelectedLines, rows: LineLayout, seen: tuple[float, float], theme: Theme
) -> Iterator[LineStroke]:
    """Give what is to be drawn of lines between two heights, the strongest last."""
    begins, ends = (rows.ends(lines.heads, side) for side in (lines.queries, lines.keys))
    inside = (np.maximum(begins, ends) >= seen[0]) & (np.minimum(begins, ends) <= seen[1])
    brush = LineBrush.of(len(lines))
    levels = (lines.strengths**brush.gamma * (LEVELS - 1)).round().astype(int)
    are_few = len(lines) <= FEW and rows.count <= FEW
    kinds = np.stack([_strongest(lines.strengths, are_few), levels, lines.heads, lines.weights < 0])
    for at in _alike(kinds, np.nonzero(inside)[0]):
        is_wide, level, head, is_negative = kinds[:, at[0]].tolist()
        pen = brush.pen(head, level, bool(is_wide), bool(is_negative), theme)
        costs = rows.right - rows.left + np.abs(ends[at] - begins[at])
        costs *= WIDE_COSTS if is_wide else 1
        parts = np.cumsum(costs) // MOST_AT_ONCE
        for part in np.unique(parts):
            some = at[parts == part]
            cost = float(costs[parts == part].sum())
            yield LineStroke(_path(rows, begins[some], ends[some]), pen, cost)


def _alike(kinds: np.ndarray, some: np.ndarray) -> list[np.ndarray]:
    """Part some lines by their kind, in the order of the kinds and, within one, of the lines."""
    order = some[np.lexsort(kinds[::-1, some])]
    changes = (np.diff(kinds[:, order], axis=1) != 0).any(axis=0)
    return np.split(order, np.nonzero(changes)[0] + 1) if len(order) else []


def _strongest(strengths: np.ndarray, are_few: bool) -> np.ndarray:
    if are_few:
        return np.ones(len(strengths), dtype=bool)
    wide = np.zeros(len(strengths), dtype=bool)
    wide[np.argsort(strengths, kind="stable")[-WIDE_OF_MANY:]] = True
    return wide


def _path(rows: LineLayout, begins: np.ndarray, ends: np.ndarray) -> QPainterPath:
    path, middle = QPainterPath(), (rows.left + rows.right) / 2
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        path.moveTo(rows.left, begin)
        path.cubicTo(middle, begin, middle, end, rows.right, end)
    return path


def paint_cell(painter: QPainter, panel: LinePanel, rows: LineLayout, theme: Theme) -> None:
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
    text = format_number(panel.weight)
    box = QRectF(0, 0, metrics(12).horizontalAdvance(text) + 18, metrics(12).height() + 4)
    box.moveCenter(QPointF((rows.left + rows.right) / 2, (begin + end) / 2))
    painter.setPen(QPen(QColor(head_colour(head, theme)), 1.5))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(box, 4, 4)
    painter.setPen(QColor(theme.ink))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def label_box(rows: LineLayout, side: LineSide, at: int) -> QRectF:
    """Give the place of a token's label."""
    height = max(rows.height, metrics(12).height())
    top = rows.middle(at) - height / 2
    left = MARGIN if side is LineSide.QUERY else rows.right + GAP
    return QRectF(left, top, rows.left - GAP - MARGIN, height)


def paint_labels(
    painter: QPainter, panel: LinePanel, rows: LineLayout, seen: tuple[float, float], theme: Theme
) -> None:
    """Write the tokens at both sides: all of them or evenly fewer, those that are lit above."""
    line = metrics(12).height()
    step = max(1, math.ceil(line / rows.height - 0.25))
    first = max(0, rows.at(max(seen[0] - line, rows.top)) or 0) // step * step
    for side, lit in ((LineSide.QUERY, panel.query), (LineSide.KEY, panel.key)):
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


def _write(painter: QPainter, label: str, box: QRectF, side: LineSide) -> None:
    """Write a token by itself, so that no neighbour turns its direction."""
    words = painter.fontMetrics().elidedText(label, Qt.TextElideMode.ElideRight, int(box.width()))
    towards = RIGHT if side is LineSide.QUERY else LEFT
    painter.drawText(box, towards | Qt.AlignmentFlag.AlignAbsolute, words)


def paint_head(painter: QPainter, rows: LineLayout, theme: Theme) -> None:
    """Say which side is which, over both."""
    band = QRectF(0, 0, rows.left + rows.right, HEAD * text_scale())
    painter.fillRect(band, QColor(theme.paper))
    painter.setFont(font(12))
    painter.setPen(QColor(theme.quiet))
    line = band.adjusted(0, 0, 0, -4 * text_scale())
    painter.drawText(QRectF(0, line.top(), rows.left - GAP, line.height()), RIGHT, "query")
    painter.drawText(line.adjusted(rows.right + GAP, 0, 0, 0), LEFT, "key")


AT_A_TIME = 20_000
"""Pixels of a thin line that are drawn before the hand is looked at again."""
HIGHEST = 4096
"""A higher picture is of what is seen only, and is drawn anew when that is scrolled."""


@dataclass(frozen=True, slots=True)
class LinePictureKey:
    """What a picture is made of.

    Parameters
    ----------
    ratio : float
        Pixels of the screen a pixel.
    """

    lines: SelectedLines
    rows: LineLayout
    width: int
    top: int
    height: int
    ratio: float
    theme: Theme

    @classmethod
    def of(
        cls,
        lines: SelectedLines,
        rows: LineLayout,
        seen: QSize,
        offset: int,
        ratio: float,
        theme: Theme,
    ) -> LinePictureKey:
        """Take in all rows, or what is seen of them where they are too many."""
        if rows.bottom > HIGHEST:
            return cls(lines, rows, seen.width(), offset, seen.height(), ratio, theme)
        height = max(seen.height(), round(rows.bottom))
        return cls(lines, rows, seen.width(), 0, height, ratio, theme)


class IncrementalLinePicture:
    """The lines of a frame, on nothing."""

    def __init__(self, frame: LinePictureKey) -> None:
        self.frame = frame
        self.pixmap = QPixmap(QSize(frame.width, frame.height) * frame.ratio)
        self.pixmap.setDevicePixelRatio(frame.ratio)
        self.pixmap.fill(Qt.GlobalColor.transparent)
        seen = (frame.top, frame.top + frame.height)
        self._left = strokes(frame.lines, frame.rows, seen, frame.theme)  # made as they are drawn
        self._next = next(self._left, None)

    @property
    def is_complete(self) -> bool:
        """Whether every line is there."""
        return self._next is None

    def go_on(self) -> None:
        """Draw the next lines."""
        painter = QPainter(self.pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0, -self.frame.top)
        spent = 0.0
        while self._next and spent < AT_A_TIME:
            painter.strokePath(self._next.path, self._next.pen)
            spent += self._next.cost
            self._next = next(self._left, None)
        painter.end()
